/**
 * Queues parts for the bus. One event is in flight at a time, and parts that arrive meanwhile are merged with
 * the queued ones. A slow bus therefore gets fewer and larger deltas, in order, and a stuck bus pauses the
 * stream instead of filling memory.
 */
import type { BusPayload, JsonObject, LlmPart, PluginContext } from "@backplane/contract";

export type DeltaPart = Exclude<LlmPart, { type: "usage" | "stop" }>;
/** A part as it is sent: native events that wait together are sent as one delta. */
type QueuedPart = Exclude<DeltaPart, { type: "native" }> | { type: "native"; events: JsonObject[] };

const MAX_QUEUED_CHARS = 256 * 1024;
/** An estimate, because measuring an event would mean serializing it. */
const NATIVE_CHARS = 256;

export class Deltas {
  readonly #emit: PluginContext["emit"];
  readonly #session_id: string;
  readonly #request_id: string;
  #waiting: QueuedPart[] = [];
  #chars = 0;
  #sending: Promise<void> | null = null;
  #failure: { error: unknown } | null = null;

  constructor(ctx: PluginContext, session_id: string, request_id: string) {
    this.#emit = (kind, payload, options) => ctx.emit(kind, payload, options);
    this.#session_id = session_id;
    this.#request_id = request_id;
  }

  /** Waits only when the queue is full. */
  async push(part: DeltaPart): Promise<void> {
    if (this.#failure !== null) throw this.#failure.error;
    const next: QueuedPart = part.type === "native" ? { type: "native", events: [part.event] } : part;
    const last = this.#waiting.at(-1);
    const joined = last === undefined ? null : join(last, next);
    if (joined === null) this.#waiting.push(next);
    else this.#waiting[this.#waiting.length - 1] = joined;
    this.#chars += sizeOf(next);
    this.#sending ??= this.#send();
    if (this.#chars > MAX_QUEUED_CHARS) await this.drain();
  }

  /**
   * Resolves when the bus has accepted every part pushed so far; rejects with the error of the bus otherwise.
   */
  async drain(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Drops the queued parts, because nobody reads them after an interrupt. */
  discard(): void {
    this.#waiting = [];
    this.#chars = 0;
  }

  async #send(): Promise<void> {
    // `push` has to see this promise before any code below can settle it.
    await Promise.resolve();
    try {
      for (let part = this.#waiting.shift(); part !== undefined; part = this.#waiting.shift()) {
        this.#chars -= sizeOf(part);
        const payload = { ...payloadOf(part), request_id: this.#request_id };
        await this.#emit("llm.call.delta", payload, { session_id: this.#session_id });
      }
    } catch (error) {
      this.#failure = { error };
      this.discard();
    } finally {
      this.#sending = null;
    }
  }
}

function join(last: QueuedPart, next: QueuedPart): QueuedPart | null {
  if (last.type === "native" || next.type === "native") {
    if (last.type !== "native" || next.type !== "native") return null;
    last.events.push(...next.events);
    return last;
  }
  if (last.type === "thinking_seal" || next.type === "thinking_seal") return null;
  if (last.type === "tool_call" || next.type === "tool_call") {
    if (last.type !== "tool_call" || next.type !== "tool_call" || last.index !== next.index) return null;
    const args = last.args === undefined ? next.args : last.args + (next.args ?? "");
    return { ...next, ...last, ...(args === undefined ? {} : { args }) };
  }
  return last.type === next.type ? { type: last.type, text: last.text + next.text } : null;
}

function payloadOf(part: QueuedPart): BusPayload<"llm.call.delta"> {
  if (part.type === "content") return { content: part.text };
  if (part.type === "thinking") return { thinking: part.text };
  if (part.type === "thinking_seal") return { thinking_seal: part.seal };
  if (part.type === "native") return { native: part.events };
  const { type: _, ...tool_call_partial } = part;
  return { tool_call_partial };
}

function sizeOf(part: QueuedPart): number {
  if (part.type === "tool_call") return part.args?.length ?? 0;
  if (part.type === "thinking_seal") return part.seal.length;
  if (part.type === "native") return part.events.length * NATIVE_CHARS;
  return part.text.length;
}
