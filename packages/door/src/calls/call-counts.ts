/** Counts the calls from all callers that ended on this node (metrics.door). */

import type { EndedCalls, InvocationRow } from "@backplane/ports";

export class CallCounts {
  readonly #counts = new Map<string, EndedCalls>();

  add({
    export_kind: kind,
    class: execution_class,
    status,
  }: Pick<InvocationRow, "export_kind" | "class" | "status">) {
    const key = `${kind} ${execution_class} ${status}`;
    const entry = this.#counts.get(key);
    if (entry === undefined) this.#counts.set(key, { kind, class: execution_class, status, count: 1 });
    else entry.count++;
  }

  all(): EndedCalls[] {
    return [...this.#counts.values()].map((entry) => ({ ...entry }));
  }
}
