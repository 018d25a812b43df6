/** Start: take the node's lease, recover, re-arm, begin to work. Stop: take nothing new,
 * tell what runs to end, and after a short grace record it as ended whether it did or not. */
import {
  cancelledBy,
  Deliverer,
  Dispatcher,
  type Door,
  Heartbeat,
  invoke,
  Retention,
  readCancels,
  rearmApprovals,
  recoverOrphans,
  SLOT_TTL_MS,
  settle,
  stopCall,
} from "@backplane/door";
import type { Kernel, KernelDeps } from "@backplane/ports";

/** How long the store may take to record what is left. */
const LAST_CALL_MS = 10_000;
const SWEEP_EVERY = 360;

export interface Lifecycle extends Pick<Kernel, "health" | "start"> {
  /** `turns` resolves when no turn asks for anything any more. */
  stop(grace_ms: number, turns: Promise<void>): Promise<void>;
  /** What earlier gateways left: their calls run again or end, their questions are asked on. */
  takeUp(): Promise<void>;
}

export function createLifecycle(
  door: Door,
  recoverTurns: (calls: () => Promise<unknown>) => Promise<unknown>,
): Lifecycle {
  const { deps, live, pending, gates, around, lease } = door;
  const { clock, host, runner, log } = deps;
  const deliverer = new Deliverer(deps, lease, (request) => invoke(door, request));
  const dispatcher = new Dispatcher(deps, () => deliverer.wake());
  const retention = new Retention(deps);
  let beats = 0;
  let taken_up = false;
  const idle = () => around.stopping || !taken_up || !lease.mayTakeOver();
  const every = Math.min(host.recovery.interval_ms, host.recovery.node_ttl_ms / 3);
  const heartbeat = new Heartbeat(clock, log, every, [
    { name: "slots", run: () => renewSlots(deps, gates.held()) },
    { name: "dispatcher lease", run: () => dispatcher.lead() },
    { name: "deliveries", run: () => deliverer.extend() },
    { name: "cancels", run: () => readCancels(door) },
    { name: "orphans", run: async () => (idle() ? 0 : await recoverOrphans(door)) },
    { name: "approvals", run: async () => (idle() ? 0 : await rearmApprovals(door)) },
    // After the calls, so that each finds what is taken up of it.
    { name: "turns", run: async () => (idle() ? 0 : await recoverTurns(() => recoverOrphans(door))) },
    {
      name: "retention",
      run: async () => {
        if (beats++ % SWEEP_EVERY === 0) retention.begin();
      },
    },
  ]);

  async function start(): Promise<void> {
    await lease.start();
    await dispatcher.start();
    deliverer.start();
    heartbeat.start();
  }

  async function takeUp(): Promise<void> {
    // Where gateways share a store, the heartbeat does it a lease later: the others may only have been cut off.
    const orphans = lease.mayTakeOver() ? await recoverOrphans(door) : 0;
    const approvals = lease.mayTakeOver() ? await rearmApprovals(door) : 0;
    if (orphans + approvals > 0) log.info({ orphans, approvals }, "took up what an earlier gateway left");
    taken_up = true;
  }

  async function stop(grace_ms: number, turns: Promise<void>): Promise<void> {
    around.stopping = true;
    const swept = retention.stop();
    // No new deliveries from here on; the leases of what runs are kept until the end.
    await dispatcher.stop();
    const deliveries = deliverer.stop();
    await pending.stop();
    for (const call of live.all()) stopCall(door, call, "shutdown");
    await within(deps, live.idle(), grace_ms);
    // A runner that brings nothing back does not keep a row open.
    const late = live.all().map((call) => settle(door, call, cancelledBy("shutdown")));
    await within(deps, Promise.all(late), LAST_CALL_MS);
    await within(deps, deliveries, LAST_CALL_MS);
    await turns;
    await heartbeat.stop();
    await swept;
    await lease.stop();
  }

  return {
    start,
    takeUp,
    stop,
    health: async () => ({
      store: await storeHealth(deps),
      runner: runner.health(),
      invocations: {
        running: live.count("running"),
        waiting_approval: live.count("approval"),
        queued: live.count("queued"),
      },
      lease: { held: lease.held(), takes_over: lease.mayTakeOver() },
      stopping: around.stopping,
    }),
  };
}

async function renewSlots(deps: KernelDeps, names: string[]): Promise<void> {
  if (names.length === 0) return;
  const kept = await deps.store.leases.renew(names, deps.node_id, deps.clock.now(), SLOT_TTL_MS);
  if (kept === names.length) return;
  // A wall clock that jumped: what nobody took in between is ours again.
  deps.log.warn({ expired: names.length - kept }, "slots expired while in use; taking them back");
  for (const name of names) {
    await deps.store.leases.acquire(name, deps.node_id, deps.clock.now(), SLOT_TTL_MS);
  }
}

async function storeHealth(deps: KernelDeps): Promise<{ ok: boolean; error?: string }> {
  try {
    await deps.store.ping();
    return { ok: true };
  } catch (error) {
    deps.log.warn({ err: error }, "the store does not answer");
    return { ok: false, error: "the store does not answer" };
  }
}

/** Whichever is first; leaves no timer behind. */
async function within(deps: KernelDeps, work: Promise<unknown>, ms: number): Promise<void> {
  let give_up = () => {};
  const limit = new Promise<void>((resolve) => {
    give_up = resolve;
  });
  const timer = deps.clock.after(ms, give_up);
  await Promise.race([work, limit]);
  timer.stop();
}
