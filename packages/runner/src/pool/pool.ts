/**
 * Who may use which process. A pooled process is found by its pool key, launched once however many ask for it,
 * shared by all their calls, and shut down when idle, retired or in the way. A one-call process belongs to its
 * call. Together they never exceed the cap. A process that is stopping is never handed out.
 */
import type { BackplaneError } from "@backplane/contract";
import type { Clock, RunnerHealth, RunnerNotice } from "@backplane/ports";
import { dataKey } from "../plugin-folders/data-folders.ts";
import type { Dialect, ProcessOrder } from "../ports/dialect.ts";
import type { Counterpart } from "../processes/plugin-instance.ts";
import { PluginProcess, type ProcessDeps, type ProcessSpec } from "../processes/plugin-process.ts";
import { RemoteServer } from "../processes/remote-server.ts";
import { lifetimeOf } from "../sandbox/confinement.ts";
import { createRedactor } from "../secrets/redact.ts";
import { BirthKeys, bornWith, secretEnvironment } from "../secrets/secret-environment.ts";
import { isSlowStart } from "../time/slow-start.ts";
import { Breaker } from "./breaker.ts";
import { type Birth, type PlanDeps, Preparation } from "./launch-preparation.ts";
import { Spares } from "./prewarmed.ts";
import { Slots } from "./process-slots.ts";
import { type Tenant, Worker } from "./worker.ts";
import { WorkerRefusals } from "./worker-refusals.ts";
import { Roster } from "./worker-table.ts";

export interface PoolDeps extends ProcessDeps, PlanDeps {
  clock: Clock;
  notice: (notice: RunnerNotice) => void;
}

/** How long a look at the files of a process holds; see `check`. */
const FRESH_MS = 1_000;

/** A server that stays between calls ended, and with it what it remembered. */
const SERVER_GONE = "backplane/server.gone";

export class Pool {
  readonly #deps: PoolDeps;
  readonly #slots: Slots;
  readonly #breaker: Breaker;
  readonly #roster = new Roster();
  readonly #spares: Spares;
  readonly #keys = new BirthKeys();
  #closing = false;

  constructor(deps: PoolDeps) {
    this.#deps = deps;
    this.#slots = new Slots(deps.limits.processes, deps.limits.waiting);
    this.#breaker = new Breaker(deps.clock);
    const create = (order: ProcessOrder, dialect: Dialect) =>
      this.#create(order, dialect, { home: null, key: order.pool_key, env: null, spare: true });
    this.#spares = new Spares({ ...deps, create, room: () => this.#slots.free });
  }

  /** Processes that exist, stopping ones included. */
  get size(): number {
    return this.#roster.size;
  }

  /** Those that wait for their one call. */
  get prewarmed(): number {
    return this.#spares.ready;
  }

  heldBack(): RunnerHealth["held_back"] {
    return this.#breaker.heldBack();
  }

  /** The fast path: a process that takes the call right now. */
  warm(pool_key: string): Worker | undefined {
    const worker = this.#roster.find(pool_key);
    return worker?.process.state === "ready" && this.#isFresh(worker) ? worker : undefined;
  }

  /**
   * Before a process that is ready is given anything: its files are still those that were verified, or it is ended and
   * this throws. A process that serves many calls may read more of them at any time, so it is asked again, though not
   * for every call.
   */
  async check(worker: Worker): Promise<void> {
    if (worker.verified !== null) await worker.verified;
    if (this.#isFresh(worker)) return;
    const now = this.#deps.clock.monotonic();
    try {
      await worker.check();
      worker.checked_at = now;
    } catch (error) {
      this.#roster.drop(worker);
      worker.process.kill("its files were changed");
      throw error;
    }
  }

  #isFresh({ checked_at }: Worker): boolean {
    return checked_at !== null && this.#deps.clock.monotonic() - checked_at < FRESH_MS;
  }

  /** Whether a lease would find a process instead of starting one. */
  serves(order: ProcessOrder, dialect: Dialect): boolean {
    if (lifetimeOf(order, dialect) !== "pooled") return false;
    const key = this.#keys.of(order.pool_key, bornWith(order, dialect, secretEnvironment(order)));
    const state = this.#roster.find(key)?.process.state;
    return state === "launching" || state === "ready";
  }

  /** The caller counts as waiting until it calls `enter` or `leave`. */
  lease(order: ProcessOrder, dialect: Dialect, home: string | null): Worker {
    const { pool_key } = order;
    const env = secretEnvironment(order);
    const known = bornWith(order, dialect, env);
    const key = this.#keys.of(pool_key, known);
    const pooled = lifetimeOf(order, dialect) === "pooled";
    // A secret was given another value: who was born with the old one serves no further call.
    if (known !== null && pooled)
      this.#dropWhere((worker) => worker.subject.pool_key === pool_key && worker.key !== key);
    const found = pooled ? this.#roster.find(key) : known === null ? this.#spare(order, dialect) : null;
    const usable = found?.process.state === "launching" || found?.process.state === "ready";
    const worker = found && usable ? found : this.#create(order, dialect, { home, key, env });
    worker.await(1);
    return worker;
  }

  leave(worker: Worker): void {
    worker.await(-1);
    if (!worker.pooled) worker.process.kill("its call was given up");
    this.#rest(worker);
  }

  enter(worker: Worker, call: Tenant): void {
    worker.enter(call);
  }

  exit(worker: Worker, call: Tenant): void {
    if (worker.exit(call)) this.#rest(worker);
  }

  retire(binding_id: string, keep_pool_key?: string): void {
    this.#breaker.forget(binding_id, keep_pool_key);
    this.#spares.retire(binding_id, keep_pool_key);
    this.#dropWhere(({ subject }) => subject.binding_id === binding_id && subject.pool_key !== keep_pool_key);
  }

  stopAll(grace_ms: number): void {
    this.#closing = true;
    this.#roster.dropAll();
    this.#spares.close();
    for (const worker of this.#roster.all) {
      worker.leave_line?.();
      worker.process.stop(grace_ms, "the gateway is shutting down");
    }
  }

  killAll(): void {
    for (const worker of this.#roster.all) worker.process.kill("the gateway is shutting down");
  }

  async allGone(): Promise<void> {
    await Promise.all(Array.from(this.#roster.all, (worker) => worker.over));
  }

  /** Only what is confined waits for its call: a plain process would have its scratch folder from the start. */
  #spare(order: ProcessOrder, dialect: Dialect): Worker | null {
    if (this.#deps.confinement.of(order).sandbox === null) return null;
    const taken = this.#spares.take(order, dialect);
    if (taken !== null) {
      taken.verified = this.#deps.files.open(order.package.digest).then((image) => image.release());
      taken.verified.catch(() => {});
    }
    return taken;
  }

  #create(order: ProcessOrder, dialect: Dialect, birth: Birth): Worker {
    const { package: pkg, pool_key, binding_id } = order;
    const subject = { pool_key, binding_id, package_id: pkg.package_id, digest: pkg.digest };
    const calls: Tenant[] = [];
    const recent_secrets: string[] = [];
    const refusals = new WorkerRefusals(calls, recent_secrets, subject, this.#deps.log);
    const folder = dialect.keeps_data === true ? dataKey(order) : null;
    const before = folder === null ? undefined : this.#roster.keeper(folder);
    const preparation = new Preparation(this.#deps, order, dialect, birth, {
      pass: () => this.#breaker.pass(subject),
      folderFree: async () => {
        if (before !== undefined) await this.#outwait(before);
      },
      // A spare takes no room that a call waits for.
      takeSlot: async () => (birth.spare === true ? this.#slots.tryTake() : await this.#takeSlot(worker)),
      releaseSlot: () => this.#slots.release(),
      refused: (refusal) => refusals.add(refusal),
      wayOut: (session) => worker.leadOut(session),
    });
    const notice = this.#noticeOf(order, recent_secrets);
    let begun = false;
    const process = this.#begin(dialect, {
      dialect,
      package: { package_id: pkg.package_id, version: pkg.version },
      order,
      notice,
      violation: (_kind, request_id) => worker.violated(request_id),
      prepare: () => preparation.prepare(),
    });
    const worker = new Worker({
      process,
      subject,
      key: birth.key,
      pooled: lifetimeOf(order, dialect) === "pooled",
      resident: dialect.resident === true,
      calls,
      recent_secrets,
      refusals,
      idle_since: this.#deps.clock.monotonic(),
      check: () => preparation.check(),
    });
    this.#roster.add(worker, folder);
    process.ready.then(
      () => {
        begun = true;
        this.#breaker.succeeded(subject);
        if (dialect.resident === true) this.#rest(worker);
        else this.#watchIdle(worker);
      },
      (error: BackplaneError) => {
        if (preparation.admitted) this.#judge(worker, error);
        this.#roster.drop(worker);
      },
    );
    worker.over = process.gone.then(async () => {
      if (begun && dialect.resident === true && !this.#closing) notice(SERVER_GONE, {});
      if (worker.idle_check !== null) this.#deps.deadlines.clear(worker.idle_check);
      this.#roster.remove(worker, folder);
      await preparation.giveBack();
    });
    return worker;
  }

  #begin(dialect: Dialect, spec: ProcessSpec): Counterpart {
    return dialect.remote === true ? new RemoteServer(this.#deps, spec) : new PluginProcess(this.#deps, spec);
  }

  #noticeOf(order: ProcessOrder, recent_secrets: readonly string[]): ProcessSpec["notice"] {
    const { binding_id, context } = order;
    const born_with = Object.values(context.secrets);
    const project_id = context.project_id ?? null;
    return (method, params) => {
      // Calls since then may have come with other values.
      const redactor = createRedactor([...born_with, ...recent_secrets]);
      this.#deps.notice({ binding_id, project_id, method, params: redactor.json(params) });
    };
  }

  /** They serve no further call, and go when those that they have are over. */
  #dropWhere(meant: (worker: Worker) => boolean): void {
    for (const worker of this.#roster.dropWhere(meant)) this.#rest(worker);
  }

  /** The folder is another's until that one is gone; it takes no new calls, and may finish those that it has. */
  async #outwait(before: Worker): Promise<void> {
    this.#roster.drop(before);
    this.#rest(before);
    await before.process.gone;
  }

  /** What a launch that failed says about the plugin: nothing when it was slow, we gave it up or never came to it. */
  #judge(worker: Worker, error: BackplaneError): void {
    const ours = worker.ahead || (worker.process.pid === undefined && error.code !== "launch_failed");
    if (ours || worker.process.givenUp || isSlowStart(error)) this.#breaker.abandoned(worker.subject);
    else this.#breaker.failed(worker.subject, error.message);
  }

  async #takeSlot(worker: Worker): Promise<boolean> {
    if (this.#slots.tryTake()) return true;
    this.#evict();
    const taken = await this.#slots.take((leave) => {
      worker.leave_line = leave;
    });
    worker.leave_line = null;
    if (taken && worker.waiting > 0) return true;
    this.#roster.drop(worker);
    if (taken) this.#slots.release();
    return false;
  }

  /** Makes room: a process that waits for no call goes, else the pooled one that has been idle the longest. */
  #evict(): void {
    if (this.#spares.yield()) return;
    const oldest = this.#roster.longestIdle();
    if (oldest !== undefined) this.#stop(oldest, "room for another plugin is needed");
  }

  /** Nobody uses the process at the moment: may it stay? */
  #rest(worker: Worker): void {
    if (!worker.unused) return;
    worker.idle_since = this.#deps.clock.monotonic();
    if (worker.process.state === "launching" && worker.leave_line !== null) {
      // At once: the next call must not join a process that will never be.
      this.#roster.drop(worker);
      worker.leave_line();
    }
    if (!worker.idle) return;
    if (!this.#roster.offers(worker)) this.#stop(worker, "its binding changed");
    else if (this.#slots.waiting > 0) this.#evict();
  }

  /** One check per process and idle time, not one per call. */
  #watchIdle(worker: Worker): void {
    if (!worker.pooled) return;
    this.#rest(worker);
    const { idle_ms } = this.#deps.limits;
    const check = () => {
      const rest = worker.idle ? worker.idle_since + idle_ms - this.#deps.clock.monotonic() : idle_ms;
      if (rest <= 0) this.#stop(worker, "it was idle");
      else worker.idle_check = this.#deps.deadlines.set(rest, check);
    };
    worker.idle_check = this.#deps.deadlines.set(idle_ms, check);
  }

  #stop(worker: Worker, reason: string): void {
    this.#roster.drop(worker);
    worker.process.stop(this.#deps.timeouts.shutdown_grace_ms, reason);
  }
}
