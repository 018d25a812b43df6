/** Log levels from the least to the most severe (RFC 5424). */
const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export function readLevel(value: unknown): LogLevel | null {
  return LOG_LEVELS.find((level) => level === value) ?? null;
}

/** Plugins also use `warn` and `fatal`. */
export function levelOf(value: unknown): LogLevel {
  if (value === "warn") return "warning";
  if (value === "fatal") return "critical";
  return readLevel(value) ?? "info";
}

/** `min_level` is null if nothing is logged. */
export function isLogged(level: LogLevel, min_level: LogLevel | null): boolean {
  return min_level !== null && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(min_level);
}
