/** Default bounds. Operators can change most in backplane.toml; the docs list them from here. */
export const WIRE_LIMITS = {
  frame_bytes: 1024 * 1024,
  header_bytes: 4096,
  json_depth: 64,
  stderr_bytes: 1024 * 1024,
} as const;

export const VAI_TIMEOUTS = { hello_ms: 5_000, cancel_grace_ms: 2_000, shutdown_grace_ms: 5_000 } as const;

/** Until a program runs, in every dialect that has no limit of its own for it. */
export const LAUNCH_TIMEOUTS = { start_ms: 15_000 } as const;

export const SIDE_TIMEOUTS = {
  launch_ms: 2_000,
  handshake_ms: 2_000,
  invoke_ms: 5_000,
  teardown_ms: 500,
} as const;

/** A server's first words may take a while: it is often a whole runtime that starts. */
export const MCP_TIMEOUTS = {
  /** For `server/discover`, which older servers may not answer at all. */
  discover_ms: 5_000,
  /** Together less than a question about its tools may take, so that the reason is told and not only the delay. */
  initialize_ms: 20_000,
  /** After a call ran out of time: whether the server still answers anything. */
  alive_ms: 5_000,
} as const;

export const MCP_LIMITS = {
  /** One message of a server; an image or a file comes whole. */
  message_bytes: 16 * 1024 * 1024,
  /** What is kept of a tool's result. */
  output_bytes: 4 * 1024 * 1024,
} as const;

export const INVOCATION_LIMITS = {
  default_timeout_ms: 30_000,
  host_max_timeout_ms: 3_600_000,
  max_attempts: 3,
  events_kept: 1_000,
  /** All events of one invocation, as JSON. */
  events_chars: 16 * 1024 * 1024,
  queue_per_binding: 100,
  /** Refused connections on one record; the rest are counted. */
  refusals: 64,
} as const;

export const APPROVAL_TIMEOUT_MS = 60_000;

/** What a trusted instrument plugin may ask of the host's models. */
export const COGNITION_LIMITS = {
  /** Requests of one binding, cognition and embeddings together. */
  per_minute: 60,
  max_tokens: 4_096,
  prompt_chars: 200_000,
  timeout_ms: 120_000,
} as const;

export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000;

/** The live configuration: small things that everybody reads, so that all of it can be shown at once. */
export const CONFIG_LIMITS = {
  key_length: 256,
  value_bytes: 64 * 1024,
  keys_per_write: 100,
  keys_per_org: 5_000,
  bytes_per_org: 8 * 1024 * 1024,
} as const;
