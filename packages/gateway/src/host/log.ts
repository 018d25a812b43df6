import type { Logger } from "@backplane/ports";
import { pino } from "pino";

/** JSON lines on stderr: stdout belongs to the ready line and to commands' data. */
export function createLogger(level: string): Logger {
  return pino(
    { level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  );
}
