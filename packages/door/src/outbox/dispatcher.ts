/**
 * Turns committed events into hook deliveries: reads the outbox by cursor and, in one transaction, moves the cursor
 * and enqueues one job per hook. The first node to move the cursor wins, so no event is lost or enqueued twice. The
 * node that holds a lease reads the outbox; the others take over when it falls behind. Events that a hook's own call
 * caused are skipped (hook.contract).
 */
import { definedFields, type Json } from "@backplane/contract";
import type {
  BoundPackage,
  Job,
  KernelDeps,
  NewJob,
  OutboxEvent,
  OutboxSummary,
  Timer,
} from "@backplane/ports";
import { pickBinding } from "@backplane/registry";
import { DELIVERIES_QUEUE, type DeliveryPayload } from "./deliver.ts";
import { matchesFilter } from "./event-filter.ts";

export const HOOKS_CONSUMER = "hooks";
const LEASE = "outbox/hooks";
const PAGE_SIZE = 500;
/** Small writes, so that the first jobs are delivered before the last ones are enqueued (benchmark hooks.delivery). */
const JOBS_PER_WRITE = 100;
/** Commits within this time are batched into one pass. */
const BATCH_MS = 25;
/** A node without the lease waits this long for the lease holder. */
const TAKE_OVER_MS = 2_000;
const RETRY_MS = 1_000;

export class Dispatcher {
  readonly #deps: KernelDeps;
  readonly #onJobs: (due: Job[]) => void;
  #timer: Timer | null = null;
  #pass_running: Promise<void> | null = null;
  #dispatch_again = false;
  /** When the last pass began, on the monotonic clock. */
  #last_pass = Number.NEGATIVE_INFINITY;
  /** The cursor, if no other gateway can move it; null if it has to be read. */
  #cursor: number | null = null;
  #has_lease = false;
  #stopped = true;
  #unsubscribe: (() => void) | null = null;

  /** `onJobs` is called after jobs were enqueued, with the jobs that the store has reserved for this gateway. */
  constructor(deps: KernelDeps, onJobs: (due: Job[]) => void) {
    this.#deps = deps;
    this.#onJobs = onJobs;
  }

  async start(): Promise<void> {
    this.#stopped = false;
    this.#unsubscribe = this.#deps.store.outbox.onAppended(() => this.#schedule());
    await this.renewLease();
    // Not awaited: a long backlog must not delay the start of the gateway.
    this.#pass_running = this.#dispatch();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#unsubscribe?.();
    this.#timer?.stop();
    await this.#pass_running;
    if (this.#has_lease) await this.#deps.store.leases.release(LEASE, this.#deps.node_id);
  }

  /** Acquires or renews the lease. Called at every heartbeat. */
  async renewLease(): Promise<void> {
    const { store, clock, node_id, host } = this.#deps;
    const fence = await store.leases.acquire(LEASE, node_id, clock.now(), host.recovery.node_ttl_ms);
    this.#has_lease = fence !== null;
  }

  #schedule(): void {
    if (this.#stopped || this.#timer !== null) return;
    if (this.#pass_running !== null) {
      this.#dispatch_again = true;
      return;
    }
    this.#scheduleIn(this.#has_lease ? this.#batchDelay() : TAKE_OVER_MS);
  }

  /** The first event after a pause is dispatched immediately; only events that follow soon are batched. */
  #batchDelay(): number {
    return Math.max(0, this.#last_pass + BATCH_MS - this.#deps.clock.monotonic());
  }

  #scheduleIn(ms: number): void {
    const run = () => {
      this.#timer = null;
      this.#pass_running = this.#dispatch();
    };
    const { clock, pause } = this.#deps;
    // A timer waits at least one millisecond.
    this.#timer = ms > 0 || pause === undefined ? clock.after(ms, run) : runAfter(pause, run);
  }

  async #dispatch(): Promise<void> {
    let has_failed = false;
    // The delay is measured from the start of a pass. If it were measured from the end, events that are written during
    // a long pass would wait another BATCH_MS.
    this.#last_pass = this.#deps.clock.monotonic();
    try {
      await this.#readAll();
    } catch (error) {
      this.#cursor = null;
      this.#deps.log.warn({ err: error }, "could not dispatch the outbox; retrying");
      has_failed = true;
    }
    this.#pass_running = null;
    const dispatch_again = this.#dispatch_again;
    this.#dispatch_again = false;
    if (has_failed && !this.#stopped) this.#scheduleIn(RETRY_MS);
    else if (dispatch_again) this.#schedule();
  }

  async #readAll(): Promise<void> {
    const { outbox } = this.#deps.store;
    let from = this.#cursor ?? (await outbox.getCursor(HOOKS_CONSUMER));
    while (!this.#stopped) {
      const pending = await outbox.summarize(from, PAGE_SIZE);
      if (pending === null) return;
      const has_subscribers = await this.#hasSubscribers(pending);
      const to = await (has_subscribers
        ? this.#enqueueJobs(from, pending)
        : this.#advance(from, pending.last_seq, []));
      // Events that were appended in the meantime have scheduled the next pass.
      if (to === pending.last_seq && pending.count < PAGE_SIZE) return;
      from = to ?? (await outbox.getCursor(HOOKS_CONSUMER));
    }
  }

  /**
   * Enqueues the jobs of the events. Stops after a read that yields fewer jobs than events, because the next summary
   * may skip many events without hooks in one write. Resolves to the new cursor, or to null if another node was first.
   */
  async #enqueueJobs(from: number, { count, last_seq }: OutboxSummary): Promise<number | null> {
    let to: number | null = from;
    for (let remaining = count; remaining > 0 && to !== null && !this.#stopped; ) {
      const size = Math.min(remaining, JOBS_PER_WRITE);
      const events = await this.#deps.store.outbox.read(to, size);
      const jobs = await this.#buildJobs(events);
      to = await this.#advance(to, events.at(-1)?.seq ?? last_seq, jobs);
      remaining = jobs.length < size ? 0 : remaining - size;
    }
    return to;
  }

  /** Resolves to the new cursor, or to null if another node was first. */
  async #advance(from: number, to: number, jobs: NewJob[]): Promise<number | null> {
    const { store, clock } = this.#deps;
    const due = await store.outbox.advance(HOOKS_CONSUMER, from, to, jobs, clock.now());
    this.#cursor = due === null || store.shared ? null : to;
    if (due === null) return null;
    if (jobs.length > 0) this.#onJobs(due);
    return to;
  }

  /** Whether any hook subscribes to any of these events. */
  async #hasSubscribers({ kinds }: OutboxSummary): Promise<boolean> {
    for (const kind of kinds) {
      if ((await this.#deps.store.bindings.findHooks(kind, kind.type)).length > 0) return true;
    }
    return false;
  }

  async #buildJobs(events: readonly OutboxEvent[]): Promise<NewJob[]> {
    const hooks_by_key = new Map<string, BoundPackage[]>();
    const jobs: NewJob[] = [];
    for (const event of events) {
      if (event.from_hook) continue;
      const key = `${event.org_id}\n${event.project_id}\n${event.type}`;
      let hooks = hooks_by_key.get(key);
      if (hooks === undefined) {
        hooks = await this.#deps.store.bindings.findHooks(event, event.type);
        hooks_by_key.set(key, hooks);
      }
      for (const hook of selectBindings(hooks, event.id)) {
        if (passesFilters(hook, event)) jobs.push(this.#buildJob(hook, event));
      }
    }
    return jobs;
  }

  #buildJob({ binding }: BoundPackage, event: OutboxEvent): NewJob {
    const { ids, host } = this.#deps;
    const { type, occurred_at, subject, summary, session_id, chain_id, run_id } = event;
    // Every attempt has the same trace, even for an event of a change that was not made by a call.
    const trace_id = event.trace_id ?? ids.next("trace");
    const trace = definedFields({ session_id, chain_id, run_id, trace_id });
    const delivery_id = ids.next("delivery");
    const scope = { org_id: event.org_id, project_id: binding.scope.project_id ?? event.project_id };
    const payload: DeliveryPayload = {
      delivery_id,
      binding_id: binding.binding_id,
      ...(binding.share_of === undefined ? {} : { share_of: binding.share_of }),
      ...scope,
      event: { type, occurred_at, subject, summary, ...trace },
    };
    return {
      id: delivery_id,
      scope,
      queue: DELIVERIES_QUEUE,
      lane: binding.binding_id,
      group: `${binding.binding_id}/${subject.kind}/${subject.id}`,
      payload: payload as unknown as Json,
      max_attempts: binding.policy.deliveries?.max_attempts ?? host.deliveries.max_attempts,
    };
  }
}

function runAfter(pause: (run: () => void) => void, run: () => void): Timer {
  let stopped = false;
  pause(() => {
    if (!stopped) run();
  });
  return {
    stop: () => {
      stopped = true;
    },
  };
}

/** Whether the event passes the filters of the hook's author and of its binding. */
function passesFilters({ binding, package: { manifest } }: BoundPackage, event: OutboxEvent): boolean {
  const item = manifest.exports.find(({ id }) => id === binding.export_id);
  const author_filter = item?.kind === "hook" ? item.hook.filter : undefined;
  return matchesFilter(event, author_filter) && matchesFilter(event, binding.policy.deliveries?.filter);
}

/** Picks one binding per hook: rollout and the precedence of projects apply to deliveries as they do to calls. */
function selectBindings(hooks: readonly BoundPackage[], event_id: string): BoundPackage[] {
  const versions_by_hook = new Map<string, BoundPackage[]>();
  for (const hook of hooks) {
    const key = `${hook.binding.package_id}\n${hook.binding.export_id}`;
    const versions = versions_by_hook.get(key);
    if (versions === undefined) versions_by_hook.set(key, [hook]);
    else versions.push(hook);
  }
  const picked: BoundPackage[] = [];
  for (const versions of versions_by_hook.values()) {
    const bound = pickBinding(versions, event_id);
    if (bound !== null) picked.push(bound);
  }
  return picked;
}
