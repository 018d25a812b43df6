/** Counts the calls of all callers that ended on this node (metrics.door). */

import type { EndedCalls, InvocationRow } from "@backplane/ports";

export class CallCounts {
  readonly #counts = new Map<string, EndedCalls>();

  add({
    export_kind: kind,
    class: runs_as,
    status,
  }: Pick<InvocationRow, "export_kind" | "class" | "status">) {
    const key = `${kind} ${runs_as} ${status}`;
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { kind, class: runs_as, status, count: 1 });
    else known.count++;
  }

  all(): EndedCalls[] {
    return [...this.#counts.values()].map((counted) => ({ ...counted }));
  }
}
