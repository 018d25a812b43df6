/** Every bound of the runner in one place: the contract's defaults plus what only this room needs. */
import {
  ARTIFACT_LIMITS,
  LAUNCH_TIMEOUTS,
  MCP_LIMITS,
  MCP_TIMEOUTS,
  SIDE_TIMEOUTS,
  VAI_TIMEOUTS,
  WIRE_LIMITS,
} from "@backplane/contract";

export type RunnerTimeouts = {
  -readonly [K in keyof (typeof LAUNCH_TIMEOUTS &
    typeof VAI_TIMEOUTS &
    typeof SIDE_TIMEOUTS &
    typeof MCP_TIMEOUTS)]: number;
};

export interface RunnerLimits {
  frame_bytes: number;
  header_bytes: number;
  json_depth: number;
  stderr_bytes: number;
  /** One message of an MCP server. */
  message_bytes: number;
  /** What is kept of the result of an MCP tool. */
  output_bytes: number;
  /** Bytes waiting for one plugin to read them; beyond it a call ends with `backpressure`. */
  queued_bytes: number;
  /** Plugin processes at one time, launching and stopping ones included. */
  processes: number;
  /** Calls that may wait for a process when all are taken. */
  waiting: number;
  /** A pooled process without a call for this long is shut down. */
  idle_ms: number;
  /** Processes of isolated exports that wait for their one call, over all exports; 0: none. */
  prewarmed: number;
  /** The same for one pool key. */
  prewarmed_per_key: number;
  /** What they may take of memory together. */
  prewarmed_bytes: number;
  /** The largest file that an answer may refer to. */
  artifact_bytes: number;
  /** Input above this goes as a file where the call has scratch. */
  inline_bytes: number;
}

/** The only places where a bare entrypoint name is looked up, and the PATH that a plugin sees. */
export const PLUGIN_PATH = ["/usr/local/bin", "/usr/bin", "/bin"] as const;

export interface Interpreters {
  path: readonly string[];
  /** What entrypoint[0] = "node" means. */
  node: string;
}

export const DEFAULT_TIMEOUTS: RunnerTimeouts = {
  ...LAUNCH_TIMEOUTS,
  ...VAI_TIMEOUTS,
  ...SIDE_TIMEOUTS,
  ...MCP_TIMEOUTS,
};

export const DEFAULT_LIMITS: RunnerLimits = {
  ...WIRE_LIMITS,
  ...MCP_LIMITS,
  queued_bytes: 8 * 1024 * 1024,
  processes: 64,
  waiting: 10_000,
  idle_ms: 60_000,
  prewarmed: 16,
  prewarmed_per_key: 4,
  prewarmed_bytes: 512 * 1024 * 1024,
  artifact_bytes: ARTIFACT_LIMITS.artifact_bytes,
  inline_bytes: ARTIFACT_LIMITS.inline_bytes,
};
