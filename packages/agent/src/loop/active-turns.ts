/** The turns that run on this node. The loop adds and removes them; other parts look them up by run or by call. */

import type { LiveCalls } from "@backplane/door";
import type { Turn } from "./turn.ts";

export class ActiveTurns {
  readonly #calls: Pick<LiveCalls, "get">;
  readonly #by_run = new Map<string, Turn>();

  constructor(calls: Pick<LiveCalls, "get">) {
    this.#calls = calls;
  }

  add(turn: Turn): void {
    this.#by_run.set(turn.run.id, turn);
  }

  remove(turn: Turn): void {
    if (this.#by_run.get(turn.run.id) === turn) this.#by_run.delete(turn.run.id);
  }

  all(): Turn[] {
    return [...this.#by_run.values()];
  }

  findByRun(run_id: string): Turn | undefined {
    return this.#by_run.get(run_id);
  }

  /**
   * Returns the turn that made a call, found by the call's own row. The session id of a request is chosen by its
   * caller, and a caller that sends the session id of a running turn must not act with the rights of that turn.
   */
  findByCall(invocation_id: string): Turn | undefined {
    const row = this.#calls.get(invocation_id)?.row;
    return row == null || row.turn === null || row.run_id === null ? undefined : this.findByRun(row.run_id);
  }
}
