import type { Logger } from "@backplane/ports";
import { pino } from "pino";

/** Writes JSON lines to stderr: stdout is for the ready line and the output of commands. */
export function createLogger(level: string): Logger {
  return pino(
    { level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  );
}
