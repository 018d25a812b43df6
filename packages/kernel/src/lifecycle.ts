/**
 * Start: acquire the node's lease and begin to work. Recover: run or end the calls of earlier gateways and resume their
 * pending approvals. Stop: reject new work, cancel running calls, and after a grace period record the remaining calls
 * as ended even if they still run; a call of a harness is left to the next gateway instead.
 */
import {
  applyCancelRequests,
  cancelledBy,
  Deliverer,
  Dispatcher,
  type Door,
  Heartbeat,
  invoke,
  type LiveCall,
  Retention,
  recoverCalls,
  releaseToOtherNode,
  resumeApprovals,
  SLOT_TTL_MS,
  settle,
  stopCall,
} from "@backplane/door";
import type { Changes, Kernel, KernelDeps } from "@backplane/ports";

/**
 * How long the store may take to record the calls that did not end within the grace period, and after that how long a
 * stop waits for the end of the deliveries.
 */
const RECORD_CALLS_MS = 10_000;
const BEATS_PER_SWEEP = 360;

export interface Lifecycle extends Pick<Kernel, "health" | "start"> {
  /** `turns` resolves when no turn makes calls any more. */
  stop(grace_ms: number, turns: Promise<void>): Promise<void>;
  /** Runs or ends the calls that earlier gateways left unfinished, and resumes their pending approvals. */
  recover(): Promise<void>;
}

/**
 * Returns a function that runs one step of a stop and logs its failure, for example if the store is unavailable. The
 * other steps run nevertheless; otherwise the process would not exit.
 */
export function createAttempt({ log }: Pick<KernelDeps, "log">) {
  return async (part: string, step: () => Promise<unknown>): Promise<void> => {
    try {
      await step();
    } catch (error) {
      log.error({ err: error }, `${part} did not stop cleanly`);
    }
  };
}

export function createLifecycle(
  door: Door,
  changes: Pick<Changes, "on">,
  recoverTurns: (recoverTheirCalls: () => Promise<unknown>) => Promise<unknown>,
): Lifecycle {
  const { deps, live, pending, concurrency, state, lease } = door;
  const { clock, host, runner, log } = deps;
  const deliverer = new Deliverer(deps, lease, (request) => invoke(door, request));
  const dispatcher = new Dispatcher(deps, (due) => deliverer.add(due));
  changes.on("bindings.changed", () => deliverer.applyBindings());
  changes.on("deliveries.added", () => deliverer.wake());
  const retention = new Retention(deps);
  const attempt = createAttempt(deps);
  let beats = 0;
  let recovered = false;
  const mayRecover = () => recovered && !state.stopping && lease.mayTakeOver();
  const beat_ms = Math.min(host.recovery.interval_ms, host.recovery.node_ttl_ms / 3);
  const heartbeat = new Heartbeat(clock, log, beat_ms, [
    { name: "slots", run: () => renewSlots(deps, concurrency.heldSlots()) },
    { name: "dispatcher lease", run: () => dispatcher.renewLease() },
    { name: "deliveries", run: () => deliverer.extend() },
    { name: "cancels", run: () => applyCancelRequests(door) },
    { name: "orphans", run: async () => (mayRecover() ? await recoverCalls(door) : 0) },
    {
      name: "orphaned deliveries",
      run: async () => (mayRecover() ? await deliverer.releaseOrphans() : undefined),
    },
    { name: "approvals", run: async () => (mayRecover() ? await resumeApprovals(door) : 0) },
    // After the calls, so that a recovered turn finds its own calls recovered.
    { name: "turns", run: async () => (mayRecover() ? await recoverTurns(() => recoverCalls(door)) : 0) },
    {
      name: "retention",
      run: async () => {
        if (beats++ % BEATS_PER_SWEEP === 0) retention.start();
      },
    },
  ]);

  async function start(): Promise<void> {
    await lease.start();
    await dispatcher.start();
    deliverer.start();
    heartbeat.start();
  }

  async function recover(): Promise<void> {
    // Other gateways that share the store may have lost only their connection to it. Until their leases have had time
    // to be renewed, mayTakeOver() is false, and the heartbeat recovers the calls later.
    const orphans = lease.mayTakeOver() ? await recoverCalls(door) : 0;
    if (lease.mayTakeOver()) await deliverer.releaseOrphans();
    const approvals = lease.mayTakeOver() ? await resumeApprovals(door) : 0;
    if (orphans + approvals > 0)
      log.info({ orphans, approvals }, "recovered calls and approvals of an earlier gateway");
    recovered = true;
  }

  async function stop(grace_ms: number, turns: Promise<void>): Promise<void> {
    state.stopping = true;
    const retentionStopped = attempt("the retention", () => retention.stop());
    // No delivery begins from here on. The leases of running deliveries are kept until the deliveries end.
    await attempt("the dispatcher", () => dispatcher.stop());
    const deliveries = attempt("the deliveries", () => deliverer.stop());
    await attempt("the approvals", async () => pending.stop());
    for (const call of live.all()) stopCall(door, call, "shutdown");
    await waitAtMost(deps, live.idle(), grace_ms);
    // A runner that does not respond must not keep a row open.
    const unfinished = live.all().map((call) => endOrRelease(door, call));
    await attempt("the calls", () => waitAtMost(deps, Promise.all(unfinished), RECORD_CALLS_MS));
    await waitAtMost(deps, deliveries, RECORD_CALLS_MS);
    await attempt("the turns", () => turns);
    await attempt("the heartbeat", async () => heartbeat.stop());
    await retentionStopped;
    await attempt("the lease", () => lease.stop());
  }

  return {
    start,
    recover,
    stop,
    health: async () => ({
      store: await checkStoreHealth(deps),
      runner: runner.health(),
      invocations: {
        running: live.count("running"),
        waiting_approval: live.count("approval"),
        queued: live.count("queued"),
      },
      ended: door.call_counts.all(),
      lease: { held: lease.isHeld(), takes_over: lease.mayTakeOver() },
      stopping: state.stopping,
    }),
  };
}

/**
 * Records the call as ended. The call of a harness is released instead, because the next gateway continues it from its
 * last checkpoint.
 */
async function endOrRelease(door: Door, call: LiveCall): Promise<void> {
  if (call.row.export_kind === "harness") await releaseToOtherNode(door, call);
  else await settle(door, call, cancelledBy("shutdown"));
}

async function renewSlots(deps: KernelDeps, names: string[]): Promise<void> {
  if (names.length === 0) return;
  const renewed = await deps.store.leases.renew(names, deps.node_id, deps.clock.now(), SLOT_TTL_MS);
  if (renewed === names.length) return;
  // The wall clock jumped, or this renewal was late. Slots that no other gateway has acquired are acquired again.
  deps.log.warn(
    { expired: names.length - renewed },
    "concurrency slots expired while in use; acquiring them again",
  );
  for (const name of names) {
    await deps.store.leases.acquire(name, deps.node_id, deps.clock.now(), SLOT_TTL_MS);
  }
}

async function checkStoreHealth(deps: KernelDeps): Promise<{ ok: boolean; error?: string }> {
  try {
    await deps.store.ping();
    return { ok: true };
  } catch (error) {
    deps.log.warn({ err: error }, "the store does not respond");
    return { ok: false, error: "The store does not respond." };
  }
}

/** Waits for the work, but at most `ms`. Rejects if the work fails within this time. */
async function waitAtMost(deps: KernelDeps, work: Promise<unknown>, ms: number): Promise<void> {
  let stopWaiting = () => {};
  const limit = new Promise<void>((resolve) => {
    stopWaiting = resolve;
  });
  const timer = deps.clock.after(ms, stopWaiting);
  try {
    await Promise.race([work, limit]);
  } finally {
    timer.stop();
  }
}
