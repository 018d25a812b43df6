/**
 * Shows on stderr why a command is waiting, and for how long. On a terminal the status is one line that is redrawn
 * and removed at the end; elsewhere a plain line is printed whenever nothing was printed for a while.
 */
import type { ProgressEvent } from "@backplane/contract";
import type { Io } from "./io.ts";
import { plainLine } from "./plain-text.ts";

/** Short enough that the elapsed seconds are never more than one behind. */
const TICK_MS = 500;
const ERASE = "\r\u001b[2K";

export interface StatusHandle {
  update(text: string): void;
  end(): void;
}

export interface StatusLine {
  /** Waits may be nested; the newest one is shown. */
  begin(text: string): StatusHandle;
  /** Removes the line. Callers do this before they print anything else. */
  clear(): void;
}

const NO_STATUS_LINE: StatusLine = { begin: () => ({ update() {}, end() {} }), clear() {} };

export function createStatusLine(io: Io, { shown }: { shown: boolean }): StatusLine {
  const { stderr, silence_ms } = io;
  if (!shown || silence_ms === Number.POSITIVE_INFINITY) return NO_STATUS_LINE;
  const is_terminal = stderr.isTTY === true && io.env.TERM !== "dumb";
  const waits: { text: string; started_at: number }[] = [];
  let drawn = "";
  let printed_at = 0;
  let timer: NodeJS.Timeout | undefined;

  const clear = () => {
    if (drawn !== "") stderr.write(ERASE);
    drawn = "";
    printed_at = performance.now();
  };
  const show = () => {
    const newest = waits.at(-1);
    const now = performance.now();
    if (newest === undefined || (drawn === "" && now - printed_at < silence_ms)) return;
    const text = `${plainLine(newest.text)} (${Math.round((now - newest.started_at) / 1_000)} s)`;
    if (!is_terminal) {
      stderr.write(`${text}\n`);
      printed_at = now;
      return;
    }
    // Some terminals report a width of 0.
    const line = shorten(text, (stderr.columns || 80) - 1);
    if (line === drawn) return;
    stderr.write(`${ERASE}${line}`);
    drawn = line;
  };
  return {
    clear,
    begin(text) {
      const wait = { text, started_at: performance.now() };
      if (waits.length === 0) printed_at = wait.started_at;
      waits.push(wait);
      timer ??= setInterval(show, TICK_MS).unref();
      return {
        update(next) {
          wait.text = next;
          if (drawn !== "") show();
        },
        end() {
          const index = waits.indexOf(wait);
          if (index === -1) return;
          waits.splice(index, 1);
          if (waits.length > 0) return;
          clearInterval(timer);
          timer = undefined;
          clear();
        },
      };
    },
  };
}

/** The elapsed time at the end stays visible. */
function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const end = text.slice(text.lastIndexOf(" ("));
  return `${text.slice(0, Math.max(0, length - end.length - 1))}…${end}`;
}

export function progressText({ message, done, total, unit = "files" }: ProgressEvent): string {
  // Before the first byte there is nothing to count, for example while npm retries a connection.
  if (done === undefined || (done === 0 && total === undefined)) return message;
  const formatCount = (count: number) => (unit === "bytes" ? (count / 1_000_000).toFixed(1) : count);
  const amount = total === undefined ? formatCount(done) : `${formatCount(done)} of ${formatCount(total)}`;
  return `${message}: ${amount} ${unit === "bytes" ? "MB" : unit}`;
}
