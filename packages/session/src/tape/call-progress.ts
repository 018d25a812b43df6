/**
 * Progress of a running tool call for the watchers of its session. Events are batched, at most ten batches per second,
 * so that a tool that prints a lot does not fill the queue of the session. The tape gets only the last status and the
 * end of the output, with the result.
 */
import type { JsonObject } from "@backplane/contract";
import type { Clock, Timer } from "@backplane/ports";
import type { CallProgress } from "./tool-outcome.ts";

export const PROGRESS_KIND = "x.loop.tool.progress";

const INTERVAL_MS = 100;
const STATUS_CHARS = 500;
/** The limit for output that waits to be sent, and for output on the tape. */
const OUTPUT_CHARS = 8_000;

/** Returns false if the queue of the session is full; the update is then sent with the next one. */
export type PublishProgress = (update: JsonObject) => boolean;

export class CallProgressFeed {
  readonly #clock: Pick<Clock, "after">;
  /** Null for a tool that does not stream: its progress is only on the tape. */
  readonly #publish: PublishProgress | null;
  #update: JsonObject = {};
  #pending = "";
  #output = "";
  #status: string | undefined;
  #timer: Timer | null = null;

  constructor(clock: Pick<Clock, "after">, publish: PublishProgress | null) {
    this.#clock = clock;
    this.#publish = publish;
  }

  /** Adds an event that the caller has already redacted. */
  add(event: JsonObject & { type: string }): void {
    const { type, text, data } = event;
    if (type === "output" && typeof text === "string") {
      this.#output = endOf(this.#output + text);
      this.#pending = endOf(this.#pending + text);
    } else {
      const status = event.message ?? event.status ?? text ?? (typeof data === "string" ? data : undefined);
      if (typeof status === "string") this.#status = startOf(status);
      // An event with only counts does not replace the status of an event in the same interval.
      this.#update = {
        ...this.#update,
        type,
        ...(typeof status === "string" ? { status: startOf(status) } : {}),
        ...countsOf(event),
      };
    }
    if (this.#publish !== null) this.#timer ??= this.#clock.after(INTERVAL_MS, () => this.#send());
  }

  /** For the entry of the result; undefined if the call reported neither a status nor output. */
  get summary(): CallProgress | undefined {
    if (this.#status === undefined && this.#output === "") return undefined;
    return {
      ...(this.#status === undefined ? {} : { status: this.#status }),
      ...(this.#output === "" ? {} : { output: this.#output }),
    };
  }

  /** Sends the pending update before the result. */
  close(): void {
    if (this.#timer === null) return;
    this.#timer.stop();
    this.#send();
    // An update that the full queue rejects is still part of the result's entry.
    this.#timer?.stop();
    this.#timer = null;
  }

  #send(): void {
    this.#timer = null;
    const sent = this.#publish!({
      ...this.#update,
      ...(this.#pending === "" ? {} : { output: this.#pending }),
    });
    if (sent) [this.#update, this.#pending] = [{}, ""];
    else this.#timer = this.#clock.after(INTERVAL_MS, () => this.#send());
  }
}

/** MCP puts the numbers into `data`, VAI plugins into the event. */
function countsOf(event: JsonObject): JsonObject {
  const from = typeof event.data === "object" && event.data !== null ? (event.data as JsonObject) : event;
  const { progress, total } = from;
  return {
    ...(typeof progress === "number" ? { progress } : {}),
    ...(typeof total === "number" ? { total } : {}),
  };
}

function startOf(text: string): string {
  return text.slice(0, STATUS_CHARS).toWellFormed();
}

function endOf(text: string): string {
  return text.slice(-OUTPUT_CHARS).toWellFormed();
}
