/** The frames exchanged with one process. The report of a broken rule includes the last of them. */
import type { JsonObject } from "@backplane/contract";

export interface TranscriptLine {
  /** Milliseconds since the process was started. */
  at_ms: number;
  from: "host" | "plugin";
  /** The frame as JSON, or a description of other bytes that were sent or received. */
  text: string;
}

const MAX_LINES = 200;
const MAX_CHARS = 600;

export class Transcript {
  readonly #started = performance.now();
  readonly #lines: TranscriptLine[] = [];

  add(from: TranscriptLine["from"], frame: JsonObject | string): void {
    const text = typeof frame === "string" ? frame : JSON.stringify(frame);
    this.#lines.push({ at_ms: Math.round(performance.now() - this.#started), from, text: clipText(text) });
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  last(count: number): TranscriptLine[] {
    return this.#lines.slice(-count);
  }
}

export function clipText(text: string): string {
  return text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}… (${text.length} characters)` : text;
}
