/** A logger for tests that passes every line to `onLine`. */
import type { Logger } from "@backplane/ports";

type LogLevel = keyof Logger;

export function createTestLogger(
  onLine: (level: LogLevel, message: string, fields: object) => void = () => {},
): Logger {
  const logAt = (level: LogLevel) => (fields: object, message: string) => onLine(level, message, fields);
  return { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
}
