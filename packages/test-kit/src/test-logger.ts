/** A logger for tests: passes every line to `note`, if given. */
import type { Logger } from "@backplane/ports";

type LogLevel = keyof Logger;

export function createTestLogger(
  note: (level: LogLevel, message: string, fields: object) => void = () => {},
): Logger {
  const at = (level: LogLevel) => (fields: object, message: string) => note(level, message, fields);
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
