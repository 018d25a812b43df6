/**
 * Keeps definitions true while the gateway runs (mcp.client): described bindings are asked when it starts, one that
 * does not answer is asked again after a while, and one that says its tools changed is asked at once. What came of it is
 * told on the bus as `x.mcp.server.ready` or `x.mcp.server.error`.
 */

import { type Definitions, isDescribed, KERNEL_SESSION } from "@backplane/contract";
import type { BoundPackage, KernelDeps, Timer } from "@backplane/ports";
import type { DefinitionsService } from "@backplane/registry";
import type { KernelPort } from "@backplane/session";

export interface DefinitionsRefresher {
  /** What the last question to this binding came to. */
  recordResult: (bound: BoundPackage, row: Definitions) => void;
  start(definitions: Pick<DefinitionsService, "describe">): Promise<void>;
  stop(): void;
}

/** After each failure in a row; the last one goes on. Longer than a runner holds back what dies at launch. */
const PAUSES_MS = [2_000, 10_000, 60_000, 330_000];
/** A server that changes ten tools says so ten times. */
const SETTLE_MS = 200;
const AT_ONCE = 4;
/** One that says so all the time is asked less and less: more often than this within the time, each pause doubles. */
const OFTEN = { times: 10, within_ms: 60_000, doublings: 8 } as const;

interface Watch {
  failures: number;
  /** Changes told, each soon after the one before. */
  told: number;
  told_at: number;
  timer: Timer | null;
}

export function createDefinitionsRefresher(deps: KernelDeps, port: KernelPort): DefinitionsRefresher {
  const { clock, log, runner, store } = deps;
  const watched = new Map<string, Watch>();
  const bound_by = new Map<string, BoundPackage>();
  let room: Pick<DefinitionsService, "describe"> | null = null;
  let stopListening = () => {};

  function told(bound: BoundPackage, row: Definitions): void {
    const { binding_id, scope, generation } = bound.binding;
    const known = bound_by.get(binding_id);
    if (known === undefined || known.binding.generation <= generation) bound_by.set(binding_id, bound);
    const watch = watched.get(binding_id) ?? { failures: 0, told: 0, told_at: 0, timer: null };
    watched.set(binding_id, watch);
    // A change that it told while it was asked is still to be asked about.
    if (row.error !== null || watch.failures > 0) {
      watch.timer?.stop();
      watch.timer = null;
    }
    if (row.error === null) watch.failures = 0;
    else {
      const pause = PAUSES_MS[Math.min(watch.failures, PAUSES_MS.length - 1)]!;
      watch.failures++;
      askLater(binding_id, watch, pause);
    }
    announce(bound, row, watch.failures, scope);
  }

  function announce(
    bound: BoundPackage,
    row: Definitions,
    attempt: number,
    scope: BoundPackage["binding"]["scope"],
  ) {
    const { binding_id, package_id } = bound.binding;
    if (!bound.package.manifest.runtime.protocol.startsWith("mcp.")) return;
    const about = { binding_id, package_id };
    const options = { session_id: KERNEL_SESSION, scope };
    if (row.error === null) {
      const counts = { tools: row.exports.length, quarantined: row.quarantined.length };
      port.tryPublish("x.mcp.server.ready", { ...about, ...counts }, options);
    } else {
      const { code, message } = row.error;
      port.tryPublish("x.mcp.server.error", { ...about, code, message, attempt }, options);
    }
  }

  function askLater(binding_id: string, watch: Watch, ms: number): void {
    if (room === null) return;
    watch.timer?.stop();
    watch.timer = clock.after(ms, () => {
      watch.timer = null;
      void ask(binding_id);
    });
  }

  /** With the binding as it is now: it may have changed or gone. */
  async function ask(binding_id: string): Promise<void> {
    const known = bound_by.get(binding_id);
    if (known === undefined || room === null) return;
    try {
      const bound = await store.bindings.get(known.binding.scope, binding_id);
      if (bound === null || (await room.describe(bound)) === null) forget(binding_id);
    } catch (error) {
      log.warn({ err: error, binding_id }, "a binding could not be asked for its tools");
    }
  }

  function forget(binding_id: string): void {
    watched.get(binding_id)?.timer?.stop();
    watched.delete(binding_id);
    bound_by.delete(binding_id);
  }

  async function start(definitions: Pick<DefinitionsService, "describe">): Promise<void> {
    room = definitions;
    stopListening =
      runner.onNotice?.(({ binding_id, method }) => {
        const watch = watched.get(binding_id);
        if (watch === undefined || method !== "notifications/tools/list_changed") return;
        // It is asked already, and hears of this one as well.
        if (watch.timer !== null) return;
        const now = clock.monotonic();
        watch.told = now - watch.told_at > OFTEN.within_ms ? 1 : watch.told + 1;
        watch.told_at = now;
        const doublings = Math.min(Math.max(0, watch.told - OFTEN.times), OFTEN.doublings);
        askLater(binding_id, watch, SETTLE_MS * 2 ** doublings);
      }) ?? (() => {});
    // Instrument plugins depend on each other, so they are asked one by one in their order (instruments/).
    const all = (await store.bindings.whole()).filter(
      ({ package: { manifest } }) =>
        isDescribed(manifest.runtime.protocol) && manifest.runtime.instrument === undefined,
    );
    const lane = async () => {
      for (let bound = all.pop(); bound !== undefined && room !== null; bound = all.pop()) {
        bound_by.set(bound.binding.binding_id, bound);
        await room.describe(bound);
      }
    };
    // Nobody waits for it: what was known before the restart is offered meanwhile.
    for (let lanes = 0; lanes < AT_ONCE; lanes++) {
      void lane().catch((error: unknown) =>
        log.warn({ err: error }, "bindings could not be asked for their tools"),
      );
    }
  }

  return {
    recordResult: told,
    start,
    stop() {
      room = null;
      stopListening();
      for (const id of Array.from(watched.keys())) forget(id);
    },
  };
}
