/**
 * One loaded instance of a plugin: its module or process, its running work, and its bus subscriptions. A reload creates
 * a second instance while the first one still runs. Each instance counts and drains its own calls, so that a call ends
 * in the instance in which it began.
 */

import {
  type BusEvent,
  codeOf,
  type KernelPlugin,
  type PluginContext,
  type PluginEntry,
} from "@backplane/contract";
import type { LoadedPlugin, RegisteredTool, Scope } from "@backplane/ports";
import type { BusPort } from "@backplane/session";
import { LegacyCalls } from "./legacy-calls.ts";

const MAX_CONTEXTS = 1_024;

export type Mode = "inline" | "hosted";

export interface InstanceHooks {
  createContext(instance: Instance, scope: Scope): PluginContext;
  /**
   * Returns whether a subscribed event is meant for this instance, as a promise only when configuration has to be
   * read first (benchmark bus.dispatch).
   */
  isMeantFor(instance: Instance, event: BusEvent): boolean | Promise<boolean>;
  /**
   * Called after each handled event with the thrown value, or null on success, and when an event misses its deadline.
   */
  recordOutcome(instance: Instance, failure: unknown): void;
  /** Reports a failure that the bus has not published. */
  reportError(instance: Instance, failure: unknown): void;
}

export class Instance {
  readonly entry: PluginEntry;
  readonly mode: Mode;
  readonly plugin: KernelPlugin;
  readonly digest: string | undefined;
  readonly generation: number;
  /** Read once, so that a plugin cannot change its subscriptions while it is loaded. */
  readonly kinds: readonly string[];
  readonly tools = new Set<RegisteredTool>();
  readonly legacy = new LegacyCalls();
  /** Rejects when the process exits unexpectedly. */
  readonly died: Promise<never>;
  dead = false;
  /** Set when the instance is closed. */
  ended = false;
  readonly #loaded: LoadedPlugin;
  readonly #hooks: InstanceHooks;
  readonly #unsubscribers = new Map<string, () => void>();
  readonly #contexts = new Map<string, PluginContext>();
  readonly #expired_events = new WeakSet<BusEvent>();
  #running = 0;
  #idle: (() => void)[] = [];

  constructor(
    entry: PluginEntry,
    mode: Mode,
    loaded: LoadedPlugin,
    generation: number,
    hooks: InstanceHooks,
  ) {
    this.entry = entry;
    this.mode = mode;
    this.plugin = loaded.plugin;
    this.digest = loaded.digest;
    this.generation = generation;
    this.kinds = [...new Set(loaded.plugin.subscriptions())];
    this.#loaded = loaded;
    this.#hooks = hooks;
    const { promise, reject } = Promise.withResolvers<never>();
    this.died = promise;
    promise.catch(() => {});
    loaded.onExit((error) => {
      this.dead = true;
      reject(error);
    });
  }

  get name(): string {
    return this.entry.name;
  }

  get running(): number {
    return this.#running;
  }

  /** Returns the context of this org and project. Contexts are cached. */
  getContext({ org_id, project_id }: Scope): PluginContext {
    const key = `${org_id}/${project_id ?? ""}`;
    const cached = this.#contexts.get(key);
    if (cached !== undefined) return cached;
    if (this.#contexts.size >= MAX_CONTEXTS) this.#contexts.clear();
    const context = this.#hooks.createContext(this, { org_id, project_id });
    this.#contexts.set(key, context);
    return context;
  }

  /** Starts the delivery of this org's events. */
  bind(org_id: string, port: BusPort): void {
    if (this.kinds.length === 0 || this.plugin.onEvent === undefined || this.#unsubscribers.has(org_id))
      return;
    const end = port.subscribe(this.kinds, (event) => this.#handle(event), {
      filter: (event) => this.#mayHandle(event),
      onTimeout: (event) => this.#expire(event),
    });
    this.#unsubscribers.set(org_id, end);
  }

  unbind(): void {
    for (const end of this.#unsubscribers.values()) end();
    this.#unsubscribers.clear();
  }

  /** Counts `work` as running until it ends. */
  async track<T>(work: () => T | Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#endWork();
    }
  }

  /** Resolves when no work is running. */
  waitUntilIdle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#idle.push(resolve));
  }

  /** Resolves `waitUntilIdle` immediately, even while work is running. */
  resolveIdle(): void {
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }

  /** Reports the outcome of an onEvent call that the bus did not deliver: the call to a legacy tool. */
  report(failure: unknown): void {
    if (failure !== null) this.#hooks.reportError(this, failure);
    this.#recordOutcome(failure);
  }

  async close(): Promise<void> {
    this.ended = true;
    this.unbind();
    this.legacy.close();
    await this.#loaded.close();
  }

  #mayHandle(event: BusEvent): boolean {
    const is_meant_for_this = this.#hooks.isMeantFor(this, event);
    if (typeof is_meant_for_this === "boolean") return is_meant_for_this;
    // The handler repeats this check and reports the error.
    is_meant_for_this.catch(() => {});
    return true;
  }

  #handle(event: BusEvent): unknown {
    const is_meant_for_this = this.#hooks.isMeantFor(this, event);
    if (typeof is_meant_for_this === "boolean") return is_meant_for_this ? this.#deliver(event) : undefined;
    return is_meant_for_this.then((is_meant) => (is_meant ? this.#deliver(event) : undefined));
  }

  #deliver(event: BusEvent): unknown {
    this.#running++;
    let result: unknown;
    try {
      result = this.plugin.onEvent!(event, this.getContext(event));
    } catch (error) {
      this.#finishEvent(event, error);
      throw error;
    }
    if (typeof result !== "object" || result === null || !("then" in result)) {
      this.#finishEvent(event, null);
      return undefined;
    }
    return Promise.resolve(result).then(
      () => this.#finishEvent(event, null),
      (error: unknown) => {
        this.#finishEvent(event, error ?? new Error("the plugin rejected without a reason"));
        throw error;
      },
    );
  }

  #finishEvent(event: BusEvent, failure: unknown): void {
    this.#endWork();
    // An event that ended after its deadline was already counted at the deadline.
    if (!this.#expired_events.has(event)) this.#recordOutcome(failure);
  }

  /** A process that exits fails all its calls at the same time. Only the exit itself counts as a failure. */
  #recordOutcome(failure: unknown): void {
    if (this.mode === "hosted" && codeOf(failure) === "crashed") return;
    this.#hooks.recordOutcome(this, failure);
  }

  #expire(event: BusEvent): void {
    this.#expired_events.add(event);
    this.#hooks.recordOutcome(this, new Error(`handling ${event.kind} took too long`));
  }

  #endWork(): void {
    this.#running--;
    if (this.#running === 0) this.resolveIdle();
  }
}
