/**
 * Stores the text so far of every unfinished answer, even if nobody watches the session, so that a client that attaches
 * during an answer receives its beginning. The text is stored until the answer ends, at most `max` characters per answer.
 */

import type { BusEvent } from "@backplane/contract";
import type { Scope } from "@backplane/ports";

export interface UnfinishedAnswer {
  /**
   * The event id of the first delta. Ids increase, so an answer that finished after this id is the same
   * answer.
   */
  first_id: string;
  /** Null matches every workspace. */
  workspace: string | null;
  /** The model call of the turn, as the deltas name it. */
  iteration: unknown;
  text: string;
  truncated: boolean;
  at: number;
}

export class Partials {
  readonly #open = new Map<string, UnfinishedAnswer>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#open.size;
  }

  add(event: BusEvent<"assistant.message.delta">, workspace: string | null, now: number): void {
    const { content, iteration } = event.payload;
    const name = joinName(event, event.session_id);
    let partial = this.#open.get(name);
    if (partial === undefined) {
      partial = { first_id: event.id, workspace, iteration, text: "", truncated: false, at: now };
      this.#open.set(name, partial);
    }
    partial.at = now;
    if (partial.truncated) return;
    partial.text += content;
    if (partial.text.length <= this.#max) return;
    partial.text = partial.text.slice(0, this.#max);
    partial.truncated = true;
  }

  get(scope: Scope, session_id: string): UnfinishedAnswer | undefined {
    return this.#open.get(joinName(scope, session_id));
  }

  drop(scope: Scope, session_id: string): void {
    if (this.#open.size > 0) this.#open.delete(joinName(scope, session_id));
  }

  /** The end of an answer may arrive from the tape before it arrives from the bus. */
  finished(scope: Scope, session_id: string, event_id: string): void {
    const partial = this.get(scope, session_id);
    if (partial !== undefined && partial.first_id < event_id) this.drop(scope, session_id);
  }

  /** Drops answers whose end was never published. */
  sweep(before: number): void {
    for (const [name, { at }] of this.#open) if (at < before) this.#open.delete(name);
  }
}

function joinName({ org_id, project_id }: Scope, session_id: string): string {
  return `${org_id} ${project_id ?? ""} ${session_id}`;
}
