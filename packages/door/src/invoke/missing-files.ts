/**
 * Finds interrupted calls whose package files are neither on this gateway nor in the database that it shares with
 * others. Another gateway may have files that it has not stored in the database yet, so such a call is left to the
 * others. No gateway knows which files the others have, so after `host.missing_files_ms` a gateway takes such a call
 * over and ends it with `package.files_missing`.
 */

import { isRemoteProtocol } from "@backplane/contract";
import type { InvocationRow, KernelDeps } from "@backplane/ports";
import type { DoorBindings } from "../tools/bound-tools.ts";

/** Orphans beyond this number are taken over without the check. */
const MAX_ORPHANS = 1_000;

export class MissingFiles {
  readonly #deps: KernelDeps;
  readonly #bindings: Pick<DoorBindings, "tool">;
  /** When this gateway first saw each call that it leaves to the others, on the monotonic clock. */
  readonly #first_seen = { running: new Map<string, number>(), waiting_approval: new Map<string, number>() };

  constructor(deps: KernelDeps, bindings: Pick<DoorBindings, "tool">) {
    this.#deps = deps;
    this.#bindings = bindings;
  }

  /** The orphaned calls that other gateways should take over. `mayRun` selects the calls that would run again. */
  async findCallsForOtherNodes(
    status: "running" | "waiting_approval",
    mayRun: (row: InvocationRow) => boolean,
  ): Promise<string[]> {
    const { store, clock, node_id, host } = this.#deps;
    if (!store.shared) return [];
    const orphans = await store.invocations.listOrphans(status, node_id, clock.now(), MAX_ORPHANS);
    const now = clock.monotonic();
    const first_seen = this.#first_seen[status];
    const skipped: string[] = [];
    for (const row of orphans) {
      // This gateway also takes over the turn of a call, so it does not leave the call to others.
      if (row.turn !== null || !mayRun(row) || !(await this.isMissing(row))) continue;
      const first_seen_at = first_seen.get(row.id) ?? now;
      first_seen.set(row.id, first_seen_at);
      if (now - first_seen_at < host.missing_files_ms) skipped.push(row.id);
    }
    const orphan_ids = new Set(orphans.map(({ id }) => id));
    for (const id of first_seen.keys()) if (!orphan_ids.has(id)) first_seen.delete(id);
    return skipped;
  }

  /** Whether the call needs files that are neither on this gateway nor in the database. */
  async isMissing(row: InvocationRow): Promise<boolean> {
    const { importer, store } = this.#deps;
    if (!store.shared || importer.has === undefined) return false;
    if (this.#bindings.tool(row.binding_id) !== null || (await importer.has(row.package_digest)))
      return false;
    const bound = await store.bindings.get(row, row.binding_id);
    return bound !== null && !isRemoteProtocol(bound.package.manifest.runtime.protocol);
  }
}
