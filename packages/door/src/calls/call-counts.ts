/**
 * Counts the calls from all callers that ended on this node (metrics.door). A call whose grant includes the host runs
 * outside its class, so it is counted under `host`.
 */

import type { EndedCalls, InvocationRow } from "@backplane/ports";

export class CallCounts {
  readonly #counts = new Map<string, EndedCalls>();

  add(row: Pick<InvocationRow, "export_kind" | "class" | "grant" | "status">) {
    const { export_kind: kind, grant, status } = row;
    const execution_class = grant?.host === true ? "host" : row.class;
    const key = `${kind} ${execution_class} ${status}`;
    const entry = this.#counts.get(key);
    if (entry === undefined) this.#counts.set(key, { kind, class: execution_class, status, count: 1 });
    else entry.count++;
  }

  all(): EndedCalls[] {
    return [...this.#counts.values()].map((entry) => ({ ...entry }));
  }
}
