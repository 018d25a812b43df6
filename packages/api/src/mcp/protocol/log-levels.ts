/** Log levels from the least to the most severe (RFC 5424). */
const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Null if the value is not a log level of MCP. */
export function parseLogLevel(value: unknown): LogLevel | null {
  return LOG_LEVELS.find((level) => level === value) ?? null;
}

/** Converts the level of a plugin, which may also be `warn` or `fatal`. An unknown level becomes `info`. */
export function toLogLevel(value: unknown): LogLevel {
  if (value === "warn") return "warning";
  if (value === "fatal") return "critical";
  return parseLogLevel(value) ?? "info";
}

/** `min_level` is null if the client has not requested any log messages. */
export function isLogged(level: LogLevel, min_level: LogLevel | null): boolean {
  return min_level !== null && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(min_level);
}
