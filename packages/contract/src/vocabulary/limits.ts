/** Default limits. Operators can change some of them in backplane.toml. */

/** Limits of the connection to one plugin process. */
export const WIRE_LIMITS = {
  frame_bytes: 1024 * 1024,
  header_bytes: 4096,
  json_depth: 64,
  stderr_bytes: 1024 * 1024,
} as const;

export const VAI_TIMEOUTS = { hello_ms: 5_000, cancel_grace_ms: 2_000, shutdown_grace_ms: 5_000 } as const;

/** The time limit for starting a program in dialects that have no limit of their own. */
export const LAUNCH_TIMEOUTS = { start_ms: 15_000 } as const;

/** For side processes, which are the plugins of rterm.plugin.v1: each call starts one process. */
export const SIDE_TIMEOUTS = { launch_ms: 2_000, handshake_ms: 2_000, teardown_ms: 500 } as const;

/** Timeout of a call to a side process whose manifest, binding and caller set none. */
export const SIDE_INVOKE_MS = 5_000;

/** Consecutive failures after which a kernel plugin is unloaded. */
export const PLUGIN_FAILURES = 3;

/** The first response of a server may take long, because the server often starts a whole runtime. */
export const MCP_TIMEOUTS = {
  /** For `server/discover`, which older servers may not answer at all. */
  discover_ms: 5_000,
  /** The sum with discover_ms is less than the timeout of a tool listing, so that the actual reason is reported. */
  initialize_ms: 20_000,
  /** For the ping that checks, after a call has timed out, whether the server still responds. */
  alive_ms: 5_000,
} as const;

export const MCP_LIMITS = {
  /** One message of a server, which may contain a whole image or file. */
  message_bytes: 16 * 1024 * 1024,
  /** A tool's result without its binary data, and the binary data in one result for an MCP client. */
  output_bytes: 4 * 1024 * 1024,
} as const;

export const INVOCATION_LIMITS = {
  default_timeout_ms: 30_000,
  host_max_timeout_ms: 3_600_000,
  max_attempts: 3,
  events_kept: 1_000,
  /** All events of one invocation, in characters of JSON. */
  events_chars: 16 * 1024 * 1024,
  queue_per_binding: 100,
  /** Denied connections listed per record; the others are only counted. */
  refusals: 64,
  /** Earlier attempts listed per record; the latest ones are kept. */
  earlier_attempts: 20,
} as const;

/** Recorded frames, which are kept in memory only. */
export const FRAME_LIMITS = {
  /** Bindings whose frames are kept at the same time. */
  bindings: 20,
  /** Frames and characters per binding. */
  frames: 1_000,
  chars: 2 * 1024 * 1024,
  max_seconds: 3_600,
  /** How long frames are kept after the end of a recording. */
  kept_ms: 3_600_000,
} as const;

/** The plugin protocols whose frames can be observed. */
export const OBSERVABLE_PROTOCOLS = ["vai.rpc.v1", "rterm.plugin.v1"] as const;

/** The maximum length of `task`, `output` and `error` in an event's summary. Hooks read the rest through the API. */
export const EVENT_TEXT_CHARS = 4_000;

export const APPROVAL_TIMEOUT_MS = 60_000;

/** Limits on the use of the gateway's models by a trusted instrument plugin. */
export const COGNITION_LIMITS = {
  /** Requests of one binding, cognition and embeddings together. */
  per_minute: 60,
  max_tokens: 4_096,
  prompt_chars: 200_000,
  timeout_ms: 120_000,
} as const;

export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000;

/** The live configuration is kept small, so that it can be listed in one response. */
export const CONFIG_LIMITS = {
  key_length: 256,
  value_bytes: 64 * 1024,
  keys_per_write: 100,
  keys_per_org: 5_000,
  bytes_per_org: 8 * 1024 * 1024,
} as const;

/**
 * Limits of one harness execution over all its attempts. A caller may set lower values, and higher ones up to `max`.
 */
export const HARNESS_LIMITS = {
  max_depth: { default: 4, max: 16 },
  max_child_runs: { default: 12, max: 10_000 },
  /** Model calls of all child runs together. */
  max_steps: { default: 300, max: 100_000 },
  max_compactions: { default: 10, max: 1_000 },
  /** How often a harness is started without a new checkpoint, before its execution fails. */
  starts_without_checkpoint: 10,
  /** For this long, a repeated request of a resumed harness finds the child run that an earlier attempt started. */
  child_key_ttl_ms: 30 * 24 * 3_600_000,
} as const;
