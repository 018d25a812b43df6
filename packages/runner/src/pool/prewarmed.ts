/**
 * Prewarmed processes of isolated exports (benchmark sandbox.prewarmed): they are launched and complete their handshake
 * without any call data, and each is used once and never returned. A pool key gets one after its first call, more when
 * calls arrive faster than processes start, and none after the idle time without a call. Their number and memory are
 * bounded over all keys, and a call that needs a slot takes precedence.
 */
import type { Clock, Logger, ProcessRequest } from "@backplane/ports";
import type { Dialect } from "../ports/dialect.ts";
import type { RunnerLimits } from "../ports/settings.ts";
import { readPrivateBytes } from "../procfs/private-memory.ts";
import type { Deadline, Deadlines } from "../time/deadlines.ts";
import type { Worker } from "./worker.ts";

export interface PrewarmedDeps {
  clock: Clock;
  deadlines: Deadlines;
  limits: RunnerLimits;
  log: Logger;
  create(request: ProcessRequest, dialect: Dialect): Worker;
  /** Whether a process can be started without taking a slot that a call waits for. */
  hasFreeSlot(): boolean;
}

/** The prewarmed processes of one pool key. */
interface KeyStock {
  request: ProcessRequest;
  dialect: Dialect;
  /** Launching or ready, oldest first. */
  processes: PrewarmedWorker[];
  /** The wanted number of processes. */
  target: number;
  used_at: number;
  /** The memory of the last measured process; null before the first measurement. */
  bytes: number | null;
  fill_deadline: Deadline | null;
  idle_deadline: Deadline | null;
}

interface PrewarmedWorker {
  worker: Worker;
  bytes: number;
}

/** Starting a process blocks the event loop for milliseconds, so the current call is served first. */
const FILL_AFTER_MS = 10;
/** Delay before the next attempt when calls occupy all slots. */
const NO_SLOT_MS = 100;
/** Assumed memory of a process before the first measurement. */
const FIRST_GUESS_BYTES = 48 * 1024 * 1024;

export class PrewarmedProcesses {
  readonly #deps: PrewarmedDeps;
  readonly #stocks = new Map<string, KeyStock>();
  #closed = false;

  constructor(deps: PrewarmedDeps) {
    this.#deps = deps;
  }

  /** Processes that have finished their handshake. */
  get ready(): number {
    return this.#count(({ worker }) => worker.process.state === "ready");
  }

  /** Takes a process for this call, if there is one, and schedules its replacement. */
  take(request: ProcessRequest, dialect: Dialect): Worker | null {
    if (this.#closed || this.#deps.limits.prewarmed === 0) return null;
    const stock = this.#stockFor(request, dialect);
    stock.used_at = this.#deps.clock.monotonic();
    const ready = stock.processes.find(({ worker }) => worker.process.state === "ready");
    // A process that is still starting is ready sooner than a new one.
    const chosen = ready ?? stock.processes.find(({ worker }) => worker.process.pid !== undefined);
    if (chosen !== undefined) stock.processes.splice(stock.processes.indexOf(chosen), 1);
    if (ready === undefined) stock.target = Math.min(stock.target + 1, this.#deps.limits.prewarmed_per_key);
    stock.fill_deadline ??= this.#deps.deadlines.set(FILL_AFTER_MS, () => this.#fill(stock));
    return chosen?.worker ?? null;
  }

  /** Stops processes of old generations of a binding. */
  retire(binding_id: string, keep_pool_key?: string): void {
    for (const [key, stock] of this.#stocks) {
      if (stock.request.binding_id === binding_id && key !== keep_pool_key)
        this.#clear(stock, "its binding changed");
    }
  }

  /** Stops one process to free its slot. False if there is none. */
  evictOne(): boolean {
    const stock = this.#longestUnused(null);
    const prewarmed = stock?.processes.shift();
    prewarmed?.worker.process.kill("its slot is needed for a call");
    return prewarmed !== undefined;
  }

  close(): void {
    this.#closed = true;
    for (const stock of this.#stocks.values()) this.#clear(stock, "the gateway is shutting down");
  }

  #stockFor(request: ProcessRequest, dialect: Dialect): KeyStock {
    const known = this.#stocks.get(request.pool_key);
    if (known !== undefined) return known;
    const stock: KeyStock = {
      request: withoutCallData(request),
      dialect,
      processes: [],
      target: 0,
      used_at: 0,
      bytes: null,
      fill_deadline: null,
      idle_deadline: null,
    };
    this.#stocks.set(request.pool_key, stock);
    this.#watchIdle(stock);
    return stock;
  }

  #fill(stock: KeyStock): void {
    stock.fill_deadline = null;
    if (this.#closed || stock.processes.length >= stock.target || !this.#makeRoom(stock)) return;
    const has_free_slot = this.#deps.hasFreeSlot();
    if (has_free_slot) this.#add(stock);
    if (stock.processes.length >= stock.target) return;
    // One at a time, so that other work can run in between.
    stock.fill_deadline = this.#deps.deadlines.set(has_free_slot ? 1 : NO_SLOT_MS, () => this.#fill(stock));
  }

  #add(stock: KeyStock): void {
    const worker = this.#deps.create(stock.request, stock.dialect);
    const prewarmed: PrewarmedWorker = { worker, bytes: stock.bytes ?? FIRST_GUESS_BYTES };
    stock.processes.push(prewarmed);
    const forget = () => {
      const index = stock.processes.indexOf(prewarmed);
      if (index >= 0) stock.processes.splice(index, 1);
    };
    void worker.process.gone.then(forget);
    worker.process.ready.then(() => this.#measure(stock, prewarmed), forget);
  }

  /** Replaces the assumed memory with the measured value and stops the process if the total exceeds the limit. */
  async #measure(stock: KeyStock, prewarmed: PrewarmedWorker): Promise<void> {
    const { pid } = prewarmed.worker.process;
    if (pid === undefined) return;
    prewarmed.bytes = await readPrivateBytes(pid);
    stock.bytes = prewarmed.bytes;
    if (this.#bytes() <= this.#deps.limits.prewarmed_bytes || !stock.processes.includes(prewarmed)) return;
    stock.processes.splice(stock.processes.indexOf(prewarmed), 1);
    stock.target = Math.max(0, stock.target - 1);
    prewarmed.worker.process.kill("prewarmed processes use too much memory");
  }

  /** Stops processes of the least recently used keys. Returns false if there is still no room. */
  #makeRoom(stock: KeyStock): boolean {
    const { prewarmed, prewarmed_bytes } = this.#deps.limits;
    const bytes = stock.bytes ?? FIRST_GUESS_BYTES;
    while (this.#count(() => true) >= prewarmed || this.#bytes() + bytes > prewarmed_bytes) {
      const oldest = this.#longestUnused(stock);
      const evicted = oldest?.processes.shift();
      if (evicted === undefined) return false;
      evicted.worker.process.kill("another plugin was called more recently");
    }
    return true;
  }

  #longestUnused(except: KeyStock | null): KeyStock | undefined {
    let oldest: KeyStock | undefined;
    for (const stock of this.#stocks.values()) {
      if (stock === except || stock.processes.length === 0) continue;
      if (oldest === undefined || stock.used_at < oldest.used_at) oldest = stock;
    }
    return oldest;
  }

  #count(matches: (prewarmed: PrewarmedWorker) => boolean): number {
    let count = 0;
    for (const { processes } of this.#stocks.values()) count += processes.filter(matches).length;
    return count;
  }

  #bytes(): number {
    let sum = 0;
    for (const { processes } of this.#stocks.values()) for (const { bytes } of processes) sum += bytes;
    return sum;
  }

  #watchIdle(stock: KeyStock): void {
    const { clock, deadlines, limits } = this.#deps;
    const check = () => {
      const remaining = stock.used_at + limits.idle_ms - clock.monotonic();
      if (remaining <= 0) this.#clear(stock, "it was idle");
      else stock.idle_deadline = deadlines.set(remaining, check);
    };
    stock.idle_deadline = deadlines.set(limits.idle_ms, check);
  }

  #clear(stock: KeyStock, reason: string): void {
    this.#stocks.delete(stock.request.pool_key);
    stock.target = 0;
    for (const deadline of [stock.fill_deadline, stock.idle_deadline])
      if (deadline !== null) this.#deps.deadlines.clear(deadline);
    // Prewarmed processes have no call, so no graceful shutdown is needed.
    for (const { worker } of stock.processes.splice(0)) worker.process.kill(reason);
  }
}

/** Removes the secrets and input of the current call from the request. */
function withoutCallData({
  package: pkg,
  pool_key,
  binding_id,
  grant,
  class: isolation,
  context,
}: ProcessRequest): ProcessRequest {
  const { org_id, config } = context;
  return {
    package: pkg,
    pool_key,
    binding_id,
    grant,
    class: isolation,
    context: { org_id, config, secrets: {}, grant },
  };
}
