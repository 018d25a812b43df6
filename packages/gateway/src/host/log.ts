/** The log of the gateway: JSON lines on stderr, rotated when stderr is the log file of the home. */
import {
  copyFileSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import type { Logger } from "@backplane/ports";
import { type DestinationStream, pino } from "pino";

export interface LogFile {
  /** The file that stderr may have been redirected to. */
  path: string;
  /** The size above which the file is rotated. */
  max_bytes: number;
  /** How many rotated files are kept, as `path.1` (the newest), `path.2` and so on. */
  files: number;
}

const STDERR = 2;
const MAX_BUFFERED_BYTES = 256 * 1024;

/** Writes JSON lines to stderr: stdout is for the ready line and the output of commands. */
export function createLogger(level: string, file?: LogFile): Logger {
  const destination =
    file !== undefined && refersToFile(STDERR, file.path)
      ? createRotatingLog(STDERR, file)
      : createStderrLog();
  return pino({ level, base: undefined, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}

/**
 * Lines that cannot be written, because stderr is a file on a full disk, are buffered up to a limit and written later.
 */
function createStderrLog(): DestinationStream {
  const destination = pino.destination({ fd: STDERR, sync: true, maxLength: MAX_BUFFERED_BYTES });
  destination.on("error", () => {
    // Without a listener, the error would crash the gateway.
  });
  return destination;
}

function refersToFile(fd: number, path: string): boolean {
  const file = statSync(path, { throwIfNoEntry: false });
  const { dev, ino } = fstatSync(fd);
  return file?.isFile() === true && file.dev === dev && file.ino === ino;
}

/**
 * Keeps the descriptor and empties the file, because stdout and the messages of Node itself use the same open file. The
 * file is open for appending, so the next line is written at its start.
 */
export function createRotatingLog(fd: number, { path, max_bytes, files }: LogFile): DestinationStream {
  let bytes = fstatSync(fd).size;
  let truncated = false;
  return {
    write(text) {
      try {
        if (bytes > 0 && bytes + Buffer.byteLength(text) > max_bytes) {
          rotate(path, files);
          ftruncateSync(fd, 0);
          bytes = 0;
          truncated = false;
        }
        // On a nearly full disk only a part of a line may be written; the next message begins on a new line.
        const line = Buffer.from(truncated ? `\n${text}` : text);
        const written = writeSync(fd, line);
        bytes += written;
        truncated = written < line.length;
      } catch {
        // A full disk must not stop the gateway: lines are lost until there is space again.
      }
    },
  };
}

/**
 * The copy is made before the other files are moved, so that repeated failures on a full disk do not remove them all.
 */
function rotate(path: string, files: number): void {
  rmSync(`${path}.${files}`, { force: true });
  if (files === 0) return;
  const copy = `${path}.new`;
  try {
    copyFileSync(path, copy);
  } catch (error) {
    rmSync(copy, { force: true });
    throw error;
  }
  for (let number = files - 1; number >= 1; number -= 1) {
    if (existsSync(`${path}.${number}`)) renameSync(`${path}.${number}`, `${path}.${number + 1}`);
  }
  renameSync(copy, `${path}.1`);
}
