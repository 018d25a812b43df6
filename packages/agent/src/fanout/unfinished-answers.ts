/**
 * Stores the text and thinking so far of every unfinished answer, even if nobody watches the session, so that a client
 * that attaches during an answer receives its beginning. The text is stored until the answer ends, the thinking until
 * the model has responded, at most `max` characters of each.
 */

import type { BusEvent } from "@backplane/contract";
import type { Scope } from "@backplane/ports";

export interface UnfinishedText {
  text: string;
  truncated: boolean;
}

export interface UnfinishedAnswer {
  /**
   * The event id of the first delta. Ids increase, so the first event after it that finishes an answer finishes this
   * one.
   */
  first_id: string;
  /** Null matches every workspace. */
  workspace: string | null;
  /** The model call of the turn, as identified in the deltas. */
  iteration: unknown;
  /** Null until the first delta of the text. */
  answer: UnfinishedText | null;
  /** The thinking of the newest model call. */
  thinking: (UnfinishedText & { request_id: string | undefined }) | null;
  updated_at: number;
}

export class UnfinishedAnswers {
  readonly #answers = new Map<string, UnfinishedAnswer>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#answers.size;
  }

  add(event: BusEvent<"assistant.message.delta">, workspace: string | null, now: number): void {
    const { content, iteration } = event.payload;
    const partial = this.#getOrCreate(event, workspace, now);
    if (partial.answer === null) partial.iteration = iteration;
    partial.answer ??= { text: "", truncated: false };
    this.#append(partial.answer, content);
  }

  addThinking(event: BusEvent<"llm.call.delta">, workspace: string | null, now: number): void {
    const { thinking = "", request_id } = event.payload;
    const partial = this.#getOrCreate(event, workspace, now);
    if (partial.thinking === null || partial.thinking.request_id !== request_id)
      partial.thinking = { request_id, text: "", truncated: false };
    this.#append(partial.thinking, thinking);
  }

  #getOrCreate(event: BusEvent, workspace: string | null, now: number): UnfinishedAnswer {
    const key = mapKey(event, event.session_id);
    const known = this.#answers.get(key);
    if (known !== undefined) {
      known.updated_at = now;
      return known;
    }
    const first_id = event.id;
    const partial = {
      first_id,
      workspace,
      iteration: undefined,
      answer: null,
      thinking: null,
      updated_at: now,
    };
    this.#answers.set(key, partial);
    return partial;
  }

  #append(to: UnfinishedText, added: string): void {
    if (to.truncated) return;
    to.text += added;
    if (to.text.length <= this.#max) return;
    to.text = to.text.slice(0, this.#max);
    to.truncated = true;
  }

  get(scope: Scope, session_id: string): UnfinishedAnswer | undefined {
    return this.#answers.get(mapKey(scope, session_id));
  }

  drop(scope: Scope, session_id: string): void {
    if (this.#answers.size > 0) this.#answers.delete(mapKey(scope, session_id));
  }

  /**
   * Called after the model's response. Otherwise a client that attaches later would show the thinking after the entries
   * of the response.
   */
  dropThinking(scope: Scope, session_id: string): void {
    const partial = this.get(scope, session_id);
    if (partial !== undefined) partial.thinking = null;
  }

  /** The end of an answer may arrive from the tape before it arrives from the bus. */
  dropFinished(scope: Scope, session_id: string, event_id: string): void {
    const partial = this.get(scope, session_id);
    if (partial !== undefined && partial.first_id < event_id) this.drop(scope, session_id);
  }

  /** Drops answers without a delta since `before`. Their end was never published. */
  sweep(before: number): void {
    for (const [key, { updated_at }] of this.#answers) if (updated_at < before) this.#answers.delete(key);
  }
}

function mapKey({ org_id, project_id }: Scope, session_id: string): string {
  return `${org_id} ${project_id ?? ""} ${session_id}`;
}
