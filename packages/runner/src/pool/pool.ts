/**
 * Assigns processes to calls. A pooled process is found by its pool key, launched once for any number of waiting
 * calls, shared by them, and stopped when it is idle, retired or evicted. A one-call process belongs to its call.
 * The number of processes is bounded. A process that is stopping gets no further call.
 */
import { type BackplaneError, manifestVersion } from "@backplane/contract";
import type {
  Clock,
  ProcessRequest,
  RunnerHealth,
  RunnerNotification,
  ServerProcess,
} from "@backplane/ports";
import { dataKey } from "../plugin-folders/data-folders.ts";
import type { Dialect } from "../ports/dialect.ts";
import type { PluginInstance } from "../processes/plugin-instance.ts";
import { PluginProcess, type ProcessDeps, type ProcessSpec } from "../processes/plugin-process.ts";
import { RemoteServer } from "../processes/remote-server.ts";
import { readPrivateBytes } from "../procfs/private-memory.ts";
import { chooseLifetime } from "../sandbox/confinement.ts";
import { createCallRedactor } from "../secrets/redact.ts";
import { ProcessKeys, secretEnvironment, secretsKnownAtStart } from "../secrets/secret-environment.ts";
import { isSlowStart } from "../time/slow-start.ts";
import { Breaker } from "./breaker.ts";
import { LaunchPreparation, type PlanDeps, type ProcessStart } from "./launch-preparation.ts";
import { PrewarmedProcesses } from "./prewarmed.ts";
import { ProcessSlots } from "./process-slots.ts";
import { type ActiveCall, Worker } from "./worker.ts";
import { WorkerRefusals } from "./worker-refusals.ts";
import { WorkerTable } from "./worker-table.ts";

export interface PoolDeps extends ProcessDeps, PlanDeps {
  clock: Clock;
  onNotification: (notification: RunnerNotification) => void;
  /** Resolves when no instrument plugin inside the gateway uses the data folder. */
  waitForInline: (folder: string) => Promise<void>;
}

/** How long a check of the files of a process stays valid; see `check`. */
const FRESH_MS = 1_000;

/** Sent when a resident server has exited and lost its state. */
const SERVER_GONE = "backplane/server.gone";

export class Pool {
  readonly #deps: PoolDeps;
  readonly #slots: ProcessSlots;
  readonly #breaker: Breaker;
  readonly #workers = new WorkerTable();
  readonly #prewarmed: PrewarmedProcesses;
  readonly #keys = new ProcessKeys();
  #closing = false;

  constructor(deps: PoolDeps) {
    this.#deps = deps;
    this.#slots = new ProcessSlots(deps.limits.processes, deps.limits.waiting);
    this.#breaker = new Breaker(deps.clock);
    const create = (request: ProcessRequest, dialect: Dialect) =>
      this.#create(request, dialect, { home: null, key: request.pool_key, env: null, prewarmed: true });
    this.#prewarmed = new PrewarmedProcesses({ ...deps, create, hasFreeSlot: () => this.#slots.hasFree });
  }

  /** Existing processes, including those that are stopping. */
  get size(): number {
    return this.#workers.size;
  }

  /** Processes that wait for their only call. */
  get prewarmed(): number {
    return this.#prewarmed.ready;
  }

  listHeldBack(): RunnerHealth["held_back"] {
    return this.#breaker.listHeldBack();
  }

  /** Why the last start of this process's plugin failed; null if no recent start failed after the last success. */
  getStartFailure({ subject }: Worker): string | null {
    return this.#breaker.getLastFailure(subject);
  }

  /** The resident servers that run as processes. Their memory, with that of their descendants, is measured now. */
  servers(): Promise<ServerProcess[]> {
    const now = this.#deps.clock.monotonic();
    const matching = Array.from(this.#workers.all).filter(
      ({ resident, process }) => resident && process.pid !== undefined && process.state !== "gone",
    );
    return Promise.all(
      matching.map(async ({ subject, process, calls, idle, idle_since }) => ({
        binding_id: subject.binding_id,
        package_id: subject.package_id,
        pid: process.pid!,
        state: process.state as ServerProcess["state"],
        calls: calls.length,
        idle_ms: idle ? Math.max(0, Math.round(now - idle_since)) : 0,
        memory_bytes: await readPrivateBytes(process.pid!),
      })),
    );
  }

  /** The fast path: a process that can take the call immediately (benchmark runner.warm-call). */
  findReady(pool_key: string): Worker | undefined {
    const worker = this.#workers.find(pool_key);
    return worker?.process.state === "ready" && this.#isFresh(worker) ? worker : undefined;
  }

  /**
   * Checks that the files of a ready process are still the verified ones. Otherwise kills it and throws. A pooled
   * process may read its files at any time, so the check is repeated, but not for each call.
   */
  async check(worker: Worker): Promise<void> {
    if (worker.verification !== null) await worker.verification;
    if (this.#isFresh(worker)) return;
    const now = this.#deps.clock.monotonic();
    try {
      await worker.check();
      worker.checked_at = now;
    } catch (error) {
      this.#workers.withdraw(worker);
      worker.process.kill("its files were changed");
      throw error;
    }
  }

  #isFresh({ checked_at }: Worker): boolean {
    return checked_at !== null && this.#deps.clock.monotonic() - checked_at < FRESH_MS;
  }

  /** Whether a lease would find an existing process. */
  serves(request: ProcessRequest, dialect: Dialect): boolean {
    if (chooseLifetime(request, dialect) !== "pooled") return false;
    const key = this.#keys.derive(
      request.pool_key,
      secretsKnownAtStart(request, dialect, secretEnvironment(request)),
    );
    const state = this.#workers.find(key)?.process.state;
    return state === "launching" || state === "ready";
  }

  /** The caller counts as waiting until it ends the lease or decrements `waiting` before its call starts. */
  lease(request: ProcessRequest, dialect: Dialect, home: string | null): Worker {
    const { pool_key } = request;
    const env = secretEnvironment(request);
    const known = secretsKnownAtStart(request, dialect, env);
    const key = this.#keys.derive(pool_key, known);
    const pooled = chooseLifetime(request, dialect) === "pooled";
    // A secret has changed: processes that received the old value get no further call.
    if (known !== null && pooled)
      this.#withdrawWhere((worker) => worker.subject.pool_key === pool_key && worker.key !== key);
    const existing = pooled
      ? this.#workers.find(key)
      : known === null
        ? this.#takePrewarmed(request, dialect)
        : null;
    const usable = existing?.process.state === "launching" || existing?.process.state === "ready";
    const worker = existing && usable ? existing : this.#create(request, dialect, { home, key, env });
    worker.addWaiting(1);
    return worker;
  }

  /** Called when the caller no longer needs the process. Kills a one-call process, which nobody else can use. */
  endLease(worker: Worker): void {
    worker.addWaiting(-1);
    if (!worker.pooled) worker.process.kill("its only caller no longer needs it");
    this.#onUnused(worker);
  }

  /** Ends the lease of a caller that was cancelled. A process that only this caller waits for is not started. */
  abandonLease(worker: Worker): void {
    this.endLease(worker);
    if (!worker.unused || worker.process.state !== "launching") return;
    this.#workers.withdraw(worker);
    worker.process.kill("its only caller was cancelled");
  }

  startCall(worker: Worker, call: ActiveCall): void {
    worker.startCall(call);
  }

  endCall(worker: Worker, call: ActiveCall): void {
    if (worker.endCall(call)) this.#onUnused(worker);
  }

  retire(binding_id: string, keep_pool_key?: string): void {
    this.#breaker.forget(binding_id, keep_pool_key);
    this.#prewarmed.retire(binding_id, keep_pool_key);
    this.#withdrawWhere(
      ({ subject }) => subject.binding_id === binding_id && subject.pool_key !== keep_pool_key,
    );
  }

  /** Gives no new calls to the process that uses a data folder; resolves when it has finished its calls and exited. */
  async releaseFolder(folder: string): Promise<void> {
    const owner = this.#workers.findFolderOwner(folder);
    if (owner !== undefined) await this.#waitForExit(owner);
  }

  stopAll(grace_ms: number): void {
    this.#closing = true;
    this.#workers.withdrawAll();
    this.#prewarmed.close();
    for (const worker of this.#workers.all) {
      worker.leave_queue?.();
      worker.process.stop(grace_ms, "the gateway is shutting down");
    }
  }

  killAll(): void {
    for (const worker of this.#workers.all) worker.process.kill("the gateway is shutting down");
  }

  async whenAllGone(): Promise<void> {
    await Promise.all(Array.from(this.#workers.all, (worker) => worker.released));
  }

  /** Only sandboxed processes are prewarmed: a plain process needs its scratch folder at launch. */
  #takePrewarmed(request: ProcessRequest, dialect: Dialect): Worker | null {
    if (this.#deps.confinement.boundaryFor(request).sandbox === null) return null;
    const worker = this.#prewarmed.take(request, dialect);
    if (worker !== null) {
      worker.verification = this.#deps.files.open(request.package.digest).then((image) => image.release());
      worker.verification.catch(() => {});
    }
    return worker;
  }

  #create(request: ProcessRequest, dialect: Dialect, start: ProcessStart): Worker {
    const { package: pkg, pool_key, binding_id } = request;
    const subject = { pool_key, binding_id, package_id: pkg.package_id, digest: pkg.digest };
    const calls: ActiveCall[] = [];
    const recent_secrets: string[] = [];
    const refusals = new WorkerRefusals(calls, recent_secrets, subject, this.#deps.log);
    const folder = dialect.keeps_data === true ? dataKey(request) : null;
    // Looked up now: any later user of the folder waits for this process.
    const previous_owner = folder === null ? undefined : this.#workers.findFolderOwner(folder);
    const inline_released = folder === null ? Promise.resolve() : this.#deps.waitForInline(folder);
    const preparation = new LaunchPreparation(this.#deps, request, dialect, start, {
      waitUntilAllowed: () => this.#breaker.waitUntilAllowed(subject),
      waitForFolder: async () => {
        if (previous_owner !== undefined) await this.#waitForExit(previous_owner);
        await inline_released;
      },
      // A prewarmed process must not take a slot that a call waits for.
      takeSlot: async () => (start.prewarmed === true ? this.#slots.tryTake() : await this.#takeSlot(worker)),
      releaseSlot: () => this.#slots.release(),
      refused: (refusal) => refusals.add(refusal),
      attachEgress: (session) => worker.attachEgress(session),
    });
    const notify = this.#createNotifier(request, recent_secrets);
    let was_ready = false;
    const process = this.#createInstance(dialect, {
      dialect,
      package: { package_id: pkg.package_id, version: manifestVersion(pkg.version) },
      request,
      notify,
      reportViolation: (_kind, request_id) => worker.recordViolation(request_id),
      prepare: () => preparation.prepare(),
      reportLaunchStep: (step) => worker.reportLaunchStep(step),
    });
    const worker = new Worker({
      process,
      subject,
      key: start.key,
      pooled: chooseLifetime(request, dialect) === "pooled",
      resident: dialect.resident === true,
      calls,
      recent_secrets,
      refusals,
      idle_since: this.#deps.clock.monotonic(),
      check: () => preparation.check(),
    });
    this.#workers.add(worker, folder);
    process.ready.then(
      () => {
        was_ready = true;
        this.#breaker.recordSuccess(subject);
        this.#onUnused(worker);
        const idle_ms = this.#idleTimeout(dialect, request);
        if (worker.pooled && idle_ms !== null) this.#watchIdle(worker, idle_ms);
      },
      (error: BackplaneError) => {
        if (preparation.allowed) this.#recordFailedLaunch(worker, error);
        this.#workers.withdraw(worker);
      },
    );
    worker.released = process.gone.then(async () => {
      if (was_ready && dialect.resident === true && !this.#closing) notify(SERVER_GONE, {});
      if (worker.idle_check !== null) this.#deps.deadlines.clear(worker.idle_check);
      this.#workers.remove(worker, folder);
      await preparation.release();
    });
    return worker;
  }

  #createInstance(dialect: Dialect, spec: ProcessSpec): PluginInstance {
    return dialect.remote === true ? new RemoteServer(this.#deps, spec) : new PluginProcess(this.#deps, spec);
  }

  #createNotifier(request: ProcessRequest, recent_secrets: readonly string[]): ProcessSpec["notify"] {
    const { binding_id, context } = request;
    const secrets_at_launch = Object.values(context.secrets);
    const project_id = context.project_id ?? null;
    return (method, params) => {
      // Later calls may have brought other secrets.
      const redactor = createCallRedactor([...secrets_at_launch, ...recent_secrets]);
      this.#deps.onNotification({ binding_id, project_id, method, params: redactor.json(params) });
    };
  }

  /** Takes workers out of use; each stops when its current calls have finished. */
  #withdrawWhere(matches: (worker: Worker) => boolean): void {
    for (const worker of this.#workers.withdrawWhere(matches)) this.#onUnused(worker);
  }

  /** Waits until the process releases the data folder: it gets no new calls and may finish its current ones. */
  async #waitForExit(owner: Worker): Promise<void> {
    this.#workers.withdraw(owner);
    this.#onUnused(owner);
    await owner.process.gone;
  }

  /**
   * Reports a failed launch to the breaker. A launch does not count against the plugin if it was slow or abandoned, if
   * no call waited for the process, or if it failed before a process was started with a code other than
   * `launch_failed`.
   */
  #recordFailedLaunch(worker: Worker, error: BackplaneError): void {
    const is_inconclusive =
      worker.unusedPrewarmed || (worker.process.pid === undefined && error.code !== "launch_failed");
    if (is_inconclusive || worker.process.abandoned || isSlowStart(error))
      this.#breaker.recordAbandoned(worker.subject);
    else this.#breaker.recordFailure(worker.subject, error.message);
  }

  async #takeSlot(worker: Worker): Promise<boolean> {
    if (this.#slots.tryTake()) return true;
    this.#evict();
    const has_slot = await this.#slots.take((leave) => {
      worker.leave_queue = leave;
    });
    worker.leave_queue = null;
    if (has_slot && worker.waiting > 0) return true;
    this.#workers.withdraw(worker);
    if (has_slot) this.#slots.release();
    return false;
  }

  /** Frees a slot: stops a prewarmed process, otherwise the pooled one that has been idle the longest. */
  #evict(): void {
    if (this.#prewarmed.evictOne()) return;
    const oldest = this.#workers.findLongestIdle();
    if (oldest !== undefined) this.#stop(oldest, "its slot is needed for another plugin");
  }

  /** Decides whether the process stays if no call uses or awaits it. */
  #onUnused(worker: Worker): void {
    if (!worker.unused) return;
    worker.idle_since = this.#deps.clock.monotonic();
    if (worker.process.state === "launching" && worker.leave_queue !== null) {
      // Withdrawn immediately, so that the next call does not join a process that will never start.
      this.#workers.withdraw(worker);
      worker.leave_queue();
    }
    if (!worker.idle) return;
    if (!this.#workers.isAvailable(worker)) this.#stop(worker, "its binding changed");
    else if (this.#slots.waiting > 0) this.#evict();
  }

  #idleTimeout(dialect: Dialect, request: ProcessRequest): number | null {
    const { limits } = this.#deps;
    if (dialect.idleTimeout !== undefined) return dialect.idleTimeout(request, limits);
    return dialect.resident === true ? null : limits.idle_ms;
  }

  /** One timer per process and idle period instead of one per call. */
  #watchIdle(worker: Worker, idle_ms: number): void {
    const check = () => {
      const unneeded = worker.idle && worker.process.session?.inUse?.() !== true;
      const remaining = unneeded ? worker.idle_since + idle_ms - this.#deps.clock.monotonic() : idle_ms;
      if (remaining <= 0) this.#stop(worker, "it was idle");
      else worker.idle_check = this.#deps.deadlines.set(remaining, check);
    };
    worker.idle_check = this.#deps.deadlines.set(idle_ms, check);
  }

  #stop(worker: Worker, reason: string): void {
    this.#workers.withdraw(worker);
    worker.process.stop(this.#deps.timeouts.shutdown_grace_ms, reason);
  }
}
