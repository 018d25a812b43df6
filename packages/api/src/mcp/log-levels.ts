/** Levels of log messages, from the most talkative to the gravest (RFC 5424). */
const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export function readLevel(value: unknown): LogLevel | null {
  return LOG_LEVELS.find((level) => level === value) ?? null;
}

/** Plugins also say `warn` and `fatal`. */
export function levelOf(said: unknown): LogLevel {
  if (said === "warn") return "warning";
  if (said === "fatal") return "critical";
  return readLevel(said) ?? "info";
}

/** A least level of null hears nothing. */
export function heard(level: LogLevel, least: LogLevel | null): boolean {
  return least !== null && LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);
}
