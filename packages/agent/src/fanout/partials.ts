/**
 * The text so far of every answer that is under way, whether somebody watches or not: whoever joins in the middle is
 * given it. Kept until the answer ends, and at most `max` characters of each.
 */

import type { BusEvent } from "@backplane/contract";
import type { Scope } from "@backplane/ports";

export interface UnfinishedAnswer {
  /** Of the first piece: ids rise, so an answer that was finished after it is this one. */
  first_id: string;
  /** Null: whichever the session is in. */
  workspace: string | null;
  /** Which model call of the turn, as the pieces say. */
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
    const name = nameOf(event, event.session_id);
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

  of(scope: Scope, session_id: string): UnfinishedAnswer | undefined {
    return this.#open.get(nameOf(scope, session_id));
  }

  drop(scope: Scope, session_id: string): void {
    if (this.#open.size > 0) this.#open.delete(nameOf(scope, session_id));
  }

  /** The tape may tell of the end before the bus does. */
  finished(scope: Scope, session_id: string, event_id: string): void {
    const partial = this.of(scope, session_id);
    if (partial !== undefined && partial.first_id < event_id) this.drop(scope, session_id);
  }

  /** Answers whose end nobody told. */
  sweep(before: number): void {
    for (const [name, { at }] of this.#open) if (at < before) this.#open.delete(name);
  }
}

function nameOf({ org_id, project_id }: Scope, session_id: string): string {
  return `${org_id} ${project_id ?? ""} ${session_id}`;
}
