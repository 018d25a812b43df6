/**
 * Limits and timeouts of processes and calls, with the contract's defaults and those of the runner alone, and the
 * places where programs are looked up.
 */
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
  /** Size of one message of an MCP server. */
  message_bytes: number;
  /** Size of a tool result of an MCP server; the rest is truncated. */
  output_bytes: number;
  /** Bytes queued for one plugin to read. Beyond that a call ends with `backpressure`. */
  queued_bytes: number;
  /** Plugin processes at a time, including those that are launching or stopping. */
  processes: number;
  /** Calls that may wait for a process slot. */
  waiting: number;
  /** A pooled process without a call for this long is stopped. */
  idle_ms: number;
  /** An MCP server without a call for this long is stopped, unless its binding sets another time; 0 for never. */
  server_idle_ms: number;
  /** Prewarmed processes of isolated exports over all pool keys; 0 for none. */
  prewarmed: number;
  /** Prewarmed processes per pool key. */
  prewarmed_per_key: number;
  /** Memory of all prewarmed processes. */
  prewarmed_bytes: number;
  /** The largest file that an answer may refer to. */
  artifact_bytes: number;
  /** Larger input is passed as a file if the call has scratch. */
  inline_bytes: number;
}

/** The folders in which bare entrypoint names are looked up, and the PATH of plugins. */
export const PLUGIN_PATH = ["/usr/local/bin", "/usr/bin", "/bin"] as const;

export interface Interpreters {
  path: readonly string[];
  /** The program for entrypoint[0] = "node". */
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
  server_idle_ms: 600_000,
  prewarmed: 16,
  prewarmed_per_key: 4,
  prewarmed_bytes: 512 * 1024 * 1024,
  artifact_bytes: ARTIFACT_LIMITS.artifact_bytes,
  inline_bytes: ARTIFACT_LIMITS.inline_bytes,
};
