/**
 * Who may use which process. A pooled process is found by its pool key, launched once however many ask for it,
 * shared by all their calls, and shut down when idle, retired or in the way. A one-call process belongs to its
 * call. Together they never exceed the cap. A process that is stopping is never handed out.
 */
import { BackplaneError } from "@backplane/contract";
import type { Clock, PackageFiles, RunnerHealth, RunnerNotice } from "@backplane/kernel/ports";
import { Breaker, type LaunchSubject } from "./breaker.ts";
import type { Counterpart } from "./counterpart.ts";
import type { Deadline } from "./deadlines.ts";
import { dataKey, makeDataDir } from "./data-dirs.ts";
import type { Dialect, HostPrograms, ProcessOrder } from "./dialects/dialect.ts";
import type { Refusal } from "./egress/refusals.ts";
import type { Egress } from "./egress/create-egress.ts";
import type { LaunchPlan } from "./launch.ts";
import { PluginProcess, type ProcessDeps, type ProcessSpec } from "./plugin-process.ts";
import { createRedactor } from "./redact.ts";
import { RemoteServer } from "./remote-server.ts";
import { type Confinement, lifetimeOf } from "./sandbox/confinement.ts";
import type { Scratch } from "./scratch.ts";
import { BirthKeys, bornWith, secretEnvironment } from "./secret-environment.ts";
import { Slots } from "./slots.ts";
import { Spares } from "./spares.ts";
import { WorkerRefusals } from "./worker-refusals.ts";

export interface PoolDeps extends ProcessDeps {
  clock: Clock;
  files: PackageFiles;
  scratch: Scratch;
  confinement: Confinement;
  notice: (notice: RunnerNotice) => void;
  egress: Egress;
  programs: HostPrograms;
  /** Where folders that last are; null: nowhere. */
  data_root: string | null;
}

/** What a call must offer to be told of broken rules. */
export interface Tenant {
  /** The id of its request. */
  readonly id: string;
  violations: number;
  refused(refusal: Refusal, shared: boolean): void;
  /** Where it stands among the calls of its worker; the pool's own. */
  place: number;
}

export interface Worker {
  readonly process: Counterpart;
  readonly subject: LaunchSubject;
  /** What its process is found by: the pool key, and the secrets that it was born with. */
  readonly key: string;
  readonly pooled: boolean;
  /** Calls in flight, in no order. */
  readonly calls: Tenant[];
  /** Calls that wait for the process to become ready. */
  waiting: number;
  idle_since: number;
  idle_check: Deadline | null;
  /** Secrets that this process was given lately: any of its calls may find them on the shared stderr. */
  recent_secrets: string[];
  /** Connections that it was refused, on their way to its calls. */
  readonly refusals: WorkerRefusals;
  leave_line: (() => void) | null;
  /** After its process is gone and what it had is given back. */
  over: Promise<void>;
  /** Of one that was launched ahead of its call: its bytes are compared once more, for it may yet read some. */
  verified: Promise<unknown> | null;
}

/** What a process is begun with, beside its order. */
interface Birth {
  home: string | null;
  key: string;
  env: Record<string, string> | null;
  spare?: boolean;
}

export class Pool {
  readonly #deps: PoolDeps;
  readonly #slots: Slots;
  readonly #breaker: Breaker;
  readonly #byKey = new Map<string, Worker>();
  readonly #all = new Set<Worker>();
  readonly #spares: Spares;
  readonly #keys = new BirthKeys();
  /** The newest process of each folder that lasts. */
  readonly #keepers = new Map<string, Worker>();
  #homes = 0;

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
    let count = 0;
    for (const { process } of this.#all) if (process.pid !== undefined) count++;
    return count;
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
    const worker = this.#byKey.get(pool_key);
    return worker?.process.state === "ready" ? worker : undefined;
  }

  /** The caller counts as waiting until it calls `enter` or `leave`. */
  lease(order: ProcessOrder, dialect: Dialect, home: string | null): Worker {
    const env = secretEnvironment(order);
    const known = bornWith(order, dialect, env);
    const key = this.#keys.of(order.pool_key, known);
    const pooled = lifetimeOf(order, dialect) === "pooled";
    if (known !== null && pooled) this.#outdate(order.pool_key, key);
    const found = pooled ? this.#byKey.get(key) : known === null ? this.#spare(order, dialect) : null;
    const usable = found?.process.state === "launching" || found?.process.state === "ready";
    const worker = found && usable ? found : this.#create(order, dialect, { home, key, env });
    worker.waiting++;
    return worker;
  }

  leave(worker: Worker): void {
    worker.waiting--;
    if (!worker.pooled) worker.process.kill("its call was given up");
    this.#rest(worker);
  }

  enter({ calls, process, refusals }: Worker, call: Tenant): void {
    call.place = calls.length;
    calls.push(call);
    process.confined?.way_out?.renew();
    refusals.joined(call);
  }

  exit(worker: Worker, call: Tenant): void {
    const { calls } = worker;
    if (calls[call.place] !== call) return;
    const last = calls.pop()!;
    if (last !== call) {
      calls[call.place] = last;
      last.place = call.place;
    }
    if (calls.length === 0) this.#rest(worker);
  }

  retire(binding_id: string, keep_pool_key?: string): void {
    this.#breaker.forget(binding_id, keep_pool_key);
    this.#spares.retire(binding_id, keep_pool_key);
    for (const [key, worker] of this.#byKey) {
      const { subject } = worker;
      if (subject.binding_id !== binding_id || subject.pool_key === keep_pool_key) continue;
      this.#byKey.delete(key);
      this.#rest(worker);
    }
  }

  stopAll(grace_ms: number): void {
    this.#byKey.clear();
    this.#spares.close();
    for (const worker of this.#all) {
      worker.leave_line?.();
      worker.process.stop(grace_ms, "the gateway is shutting down");
    }
  }

  killAll(): void {
    for (const worker of this.#all) worker.process.kill("the gateway is shutting down");
  }

  async allGone(): Promise<void> {
    await Promise.all(Array.from(this.#all, (worker) => worker.over));
  }

  /** Only what is confined waits for its call: a plain process would have its scratch folder from the start. */
  #spare(order: ProcessOrder, dialect: Dialect): Worker | null {
    if (this.#deps.confinement.of(order).sandbox === null) return null;
    const taken = this.#spares.take(order, dialect);
    if (taken !== null) {
      taken.verified = this.#deps.files.verified(order.package.digest);
      taken.verified.catch(() => {});
    }
    return taken;
  }

  /** A secret was given another value: who was born with the old one serves no further call. */
  #outdate(pool_key: string, key: string): void {
    for (const [known, worker] of this.#byKey) {
      if (worker.subject.pool_key !== pool_key || known === key) continue;
      this.#byKey.delete(known);
      this.#rest(worker);
    }
  }

  #create(order: ProcessOrder, dialect: Dialect, birth: Birth): Worker {
    const { home, key, env, spare = false } = birth;
    const { package: pkg, pool_key, binding_id } = order;
    const lifetime = lifetimeOf(order, dialect);
    const pooled = lifetime === "pooled";
    const subject = { pool_key, binding_id, package_id: pkg.package_id, digest: pkg.digest };
    const calls: Tenant[] = [];
    const recent_secrets: string[] = [];
    const refusals = new WorkerRefusals(calls, recent_secrets, subject, this.#deps.log);
    const born_with = Object.values(order.context.secrets);
    const project_id = order.context.project_id ?? null;
    let made: string | null = null;
    let slot = false;
    let admitted = false;
    const keeper = dialect.keeps_data === true ? dataKey(order) : null;
    const before = keeper === null ? undefined : this.#keepers.get(keeper);
    const spec: ProcessSpec = {
      dialect,
      package: { package_id: pkg.package_id, version: pkg.version },
      order,
      notice: (method, params) => {
        // Calls since then may have come with other values.
        const redactor = createRedactor([...born_with, ...recent_secrets]);
        this.#deps.notice({ binding_id, project_id, method, params: redactor.json(params) });
      },
      violation: (_kind, request_id) => {
        for (const call of calls) {
          if (request_id === undefined || call.id === request_id) call.violations++;
        }
      },
      prepare: async (): Promise<LaunchPlan> => {
        await Promise.resolve();
        await this.#breaker.pass(subject);
        admitted = true;
        if (before !== undefined) await this.#outwait(before);
        // A spare takes no room that a call waits for.
        slot = spare ? this.#slots.tryTake() : await this.#takeSlot(worker);
        if (!slot) throw new BackplaneError("crashed", "Nobody waits for this process any more.");
        const folder = await this.#deps.files.verified(pkg.digest);
        const { sandbox, refusal } = this.#deps.confinement.of(order);
        if (refusal !== null) throw refusal;
        const own = await dialect.launch?.(order, {
          folder,
          confined: sandbox !== null,
          programs: this.#deps.programs,
          dataDir: () => makeDataDir(this.#deps.data_root, order),
        });
        const runtime = own === undefined ? pkg.runtime : { ...pkg.runtime, ...own };
        const seen = own?.data_dir === undefined ? {} : { data_dir: own.data_dir };
        if (sandbox !== null) {
          const binds = own?.binds ?? [];
          const refused = (refusal: Refusal) => refusals.add(refusal);
          const way_out = () => this.#deps.egress.open({ grant: order.grant, refused });
          const confine = { sandbox, grant: order.grant, lifetime, binds, way_out };
          return {
            runtime,
            folder,
            home: null,
            ...seen,
            confine,
            ...(env === null ? {} : { secret_env: env }),
          };
        }
        if (pooled && order.grant.filesystem === "scratch") {
          made = await this.#deps.scratch.make(`proc_${++this.#homes}`);
        }
        // On the host itself it is the operator's own program, with the operator's home.
        const own_home = order.grant.host === true ? this.#deps.place.surroundings.home : null;
        return { runtime, folder, home: own_home ?? home ?? made, ...seen };
      },
    };
    const process: Counterpart =
      dialect.remote === true ? new RemoteServer(this.#deps, spec) : new PluginProcess(this.#deps, spec);
    const worker: Worker = {
      process,
      subject,
      key,
      pooled,
      calls,
      waiting: 0,
      idle_since: this.#deps.clock.monotonic(),
      idle_check: null,
      recent_secrets,
      refusals,
      leave_line: null,
      over: process.gone.then(() => over()),
      verified: null,
    };
    this.#all.add(worker);
    if (keeper !== null) this.#keepers.set(keeper, worker);
    if (pooled) this.#byKey.set(key, worker);
    process.ready.then(
      () => {
        this.#breaker.succeeded(subject);
        if (dialect.resident === true) this.#rest(worker);
        else this.#watchIdle(worker);
      },
      (error: BackplaneError) => {
        if (admitted) this.#judge(worker, error);
        this.#drop(worker);
      },
    );
    const over = async () => {
      if (worker.idle_check !== null) this.#deps.deadlines.clear(worker.idle_check);
      this.#drop(worker);
      this.#all.delete(worker);
      if (keeper !== null && this.#keepers.get(keeper) === worker) this.#keepers.delete(keeper);
      if (slot) this.#slots.release();
      if (made !== null) await this.#deps.scratch.remove(made);
    };
    return worker;
  }

  /** No new call is given this process. */
  #drop(worker: Worker): void {
    if (this.#byKey.get(worker.key) === worker) this.#byKey.delete(worker.key);
  }

  /** The folder is another's until that one is gone; it takes no new calls, and may finish those that it has. */
  async #outwait(before: Worker): Promise<void> {
    this.#drop(before);
    this.#rest(before);
    await before.process.gone;
  }

  /** What a launch that failed says about the plugin: nothing when we gave it up or never came to it. */
  #judge(worker: Worker, error: BackplaneError): void {
    const ours = worker.process.pid === undefined && error.code !== "launch_failed";
    if (ours || worker.process.givenUp) this.#breaker.abandoned(worker.subject);
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
    this.#drop(worker);
    if (taken) this.#slots.release();
    return false;
  }

  /** Makes room: a process that waits for no call goes, else the pooled one that has been idle the longest. */
  #evict(): void {
    if (this.#spares.yield()) return;
    let oldest: Worker | undefined;
    for (const worker of this.#byKey.values()) {
      if (!isIdle(worker)) continue;
      if (oldest === undefined || worker.idle_since < oldest.idle_since) oldest = worker;
    }
    if (oldest !== undefined) this.#stop(oldest, "room for another plugin is needed");
  }

  /** Nobody uses the process at the moment: may it stay? */
  #rest(worker: Worker): void {
    if (worker.calls.length > 0 || worker.waiting > 0) return;
    worker.idle_since = this.#deps.clock.monotonic();
    if (worker.process.state === "launching" && worker.leave_line !== null) {
      // At once: the next call must not join a process that will never be.
      this.#drop(worker);
      worker.leave_line();
    }
    if (!isIdle(worker)) return;
    if (this.#byKey.get(worker.key) !== worker) this.#stop(worker, "its binding changed");
    else if (this.#slots.waiting > 0) this.#evict();
  }

  /** One check per process and idle time, not one per call. */
  #watchIdle(worker: Worker): void {
    if (!worker.pooled) return;
    this.#rest(worker);
    const { idle_ms } = this.#deps.limits;
    const check = () => {
      const rest = isIdle(worker) ? worker.idle_since + idle_ms - this.#deps.clock.monotonic() : idle_ms;
      if (rest <= 0) this.#stop(worker, "it was idle");
      else worker.idle_check = this.#deps.deadlines.set(rest, check);
    };
    worker.idle_check = this.#deps.deadlines.set(idle_ms, check);
  }

  #stop(worker: Worker, reason: string): void {
    this.#drop(worker);
    worker.process.stop(this.#deps.timeouts.shutdown_grace_ms, reason);
  }
}

function isIdle(worker: Worker): boolean {
  return (
    worker.pooled && worker.process.state === "ready" && worker.calls.length === 0 && worker.waiting === 0
  );
}
