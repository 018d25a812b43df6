/**
 * Turns committed events into hook deliveries: reads the outbox by cursor and, in one transaction, moves the
 * cursor and enqueues a job per hook. Who moves the cursor first wins, so nothing is lost and nothing is
 * enqueued twice; the lease only spares the other nodes the reading, and they step in when its holder does
 * not. What a hook's own call caused is passed over (hook.contract).
 */
import type { BoundPackage, KernelDeps, NewJob, OutboxEvent, OutboxSurvey, Timer } from "@backplane/ports";
import { pickBinding } from "@backplane/registry";
import { DELIVERIES } from "./delivery.ts";

export const HOOKS_CONSUMER = "hooks";
const LEASE = "outbox/hooks";
const PAGE = 500;
/** Under load one pass serves many commits. */
const GATHER_MS = 25;
const STEP_IN_MS = 2_000;
const FAILED_MS = 1_000;

export class Dispatcher {
  readonly #deps: KernelDeps;
  readonly #onJobs: () => void;
  #timer: Timer | null = null;
  #passing: Promise<void> | null = null;
  #again = false;
  #leads = false;
  #stopped = true;
  #unsubscribe: (() => void) | null = null;

  constructor(deps: KernelDeps, onJobs: () => void) {
    this.#deps = deps;
    this.#onJobs = onJobs;
  }

  async start(): Promise<void> {
    this.#stopped = false;
    this.#unsubscribe = this.#deps.store.outbox.onAppended(() => this.#soon());
    await this.lead();
    // A long backlog must not hold the start up.
    this.#passing = this.#pass();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe?.();
    this.#timer?.stop();
    await this.#passing;
    if (this.#leads) await this.#deps.store.leases.release(LEASE, this.#deps.node_id);
  }

  /** Takes or keeps the lease; called at every heartbeat. */
  async lead(): Promise<void> {
    const { store, clock, node_id, host } = this.#deps;
    const fence = await store.leases.acquire(LEASE, node_id, clock.now(), host.recovery.node_ttl_ms);
    this.#leads = fence !== null;
  }

  #soon(): void {
    if (this.#stopped || this.#timer !== null) return;
    if (this.#passing !== null) {
      this.#again = true;
      return;
    }
    this.#after(this.#leads ? GATHER_MS : STEP_IN_MS);
  }

  #after(ms: number): void {
    this.#timer = this.#deps.clock.after(ms, () => {
      this.#timer = null;
      this.#passing = this.#pass();
    });
  }

  async #pass(): Promise<void> {
    let failed = false;
    try {
      await this.#readAll();
    } catch (error) {
      this.#deps.log.warn({ err: error }, "the outbox could not be dispatched; trying again");
      failed = true;
    }
    this.#passing = null;
    const again = this.#again;
    this.#again = false;
    if (failed && !this.#stopped) this.#after(FAILED_MS);
    else if (again) this.#soon();
  }

  async #readAll(): Promise<void> {
    const { clock } = this.#deps;
    const { outbox } = this.#deps.store;
    let from = await outbox.cursor(HOOKS_CONSUMER);
    while (!this.#stopped) {
      const ahead = await outbox.survey(from, PAGE);
      if (ahead === null) return;
      const wanted = await this.#wanted(ahead);
      const jobs = wanted ? await this.#jobsFor(await outbox.read(from, ahead.amount)) : [];
      const moved = await outbox.advance(HOOKS_CONSUMER, from, ahead.last_seq, jobs, clock.now());
      if (moved && jobs.length > 0) this.#onJobs();
      // What was appended meanwhile rang the bell, and is gathered before the next pass.
      if (moved && ahead.amount < PAGE) return;
      from = moved ? ahead.last_seq : await outbox.cursor(HOOKS_CONSUMER);
    }
  }

  /** Whether any hook subscribes to any of it. */
  async #wanted({ kinds }: OutboxSurvey): Promise<boolean> {
    for (const kind of kinds) {
      if ((await this.#deps.store.bindings.hooksFor(kind, kind.type)).length > 0) return true;
    }
    return false;
  }

  async #jobsFor(events: readonly OutboxEvent[]): Promise<NewJob[]> {
    const known = new Map<string, BoundPackage[]>();
    const jobs: NewJob[] = [];
    for (const event of events) {
      if (event.from_hook) continue;
      const key = `${event.org_id}\n${event.project_id}\n${event.type}`;
      let hooks = known.get(key);
      if (hooks === undefined) {
        hooks = await this.#deps.store.bindings.hooksFor(event, event.type);
        known.set(key, hooks);
      }
      for (const hook of chosen(hooks, event.id)) jobs.push(this.#job(hook, event));
    }
    return jobs;
  }

  #job({ binding }: BoundPackage, event: OutboxEvent): NewJob {
    const { ids, host } = this.#deps;
    const { type, occurred_at, subject, summary } = event;
    return {
      id: ids.next("job"),
      queue: DELIVERIES,
      lane: binding.binding_id,
      group: `${binding.binding_id}/${subject.kind}/${subject.id}`,
      payload: {
        delivery_id: ids.next("delivery"),
        binding_id: binding.binding_id,
        org_id: event.org_id,
        project_id: binding.scope.project_id ?? event.project_id,
        event: { type, occurred_at, subject, summary },
      },
      max_attempts: host.deliveries.max_attempts,
    };
  }
}

/** One binding per hook: rollout and the project's precedence hold for deliveries as for calls. */
function chosen(hooks: readonly BoundPackage[], event_id: string): BoundPackage[] {
  const byHook = new Map<string, BoundPackage[]>();
  for (const hook of hooks) {
    const key = `${hook.binding.package_id}\n${hook.binding.export_id}`;
    const versions = byHook.get(key);
    if (versions === undefined) byHook.set(key, [hook]);
    else versions.push(hook);
  }
  const picked: BoundPackage[] = [];
  for (const versions of byHook.values()) {
    const one = pickBinding(versions, event_id);
    if (one !== null) picked.push(one);
  }
  return picked;
}
