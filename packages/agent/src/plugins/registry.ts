/**
 * Loads, reloads and unloads plugins. Changes to one plugin are serialized.
 *
 *   unloaded ─► loaded ─► unloading ─► failed      after `threshold` consecutive failures (plug.failures)
 *      │          │           └──────► unloaded    by a stop or a removal, or `disabled` by the operator
 *      │          └─► failed ─► loaded             after its process exited and was restarted
 *      └─► failed                                  if it cannot be loaded
 */

import { BackplaneError, codeOf, type PluginEntry } from "@backplane/contract";
import { readPluginSettings, sortByDependencies } from "@backplane/registry";
import type { Announcer } from "./announcer.ts";
import { describeThrown } from "./describe-thrown.ts";
import type { Instance, Mode } from "./instance.ts";
import { type PluginLifecycle, subscriberFor } from "./lifecycle.ts";
import type { PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import { type PluginRecord, PluginRecords } from "./records.ts";
import type { PluginSubscriptions } from "./subscriptions.ts";
import { Supervisor } from "./supervisor.ts";

export interface PluginRegistryOptions {
  deps: PluginSystemDeps;
  timeouts: PluginTimeouts;
  /** Consecutive failures after which a plugin is unloaded. */
  threshold: number;
  subscriptions: PluginSubscriptions;
  lifecycle: PluginLifecycle;
  announcer: Announcer;
}

const STOP_DRAIN_MS = 200;

export class PluginRegistry {
  readonly #options: PluginRegistryOptions;
  readonly #supervisor: Supervisor;
  readonly #records: PluginRecords;
  readonly #retiring = new Map<Instance, Promise<void>>();
  #stopped = false;

  constructor(options: PluginRegistryOptions) {
    this.#options = options;
    this.#records = new PluginRecords(options.deps);
    this.#supervisor = new Supervisor({
      ...options,
      restart: (record) => this.#restart(record),
      fail: (record, error) => this.#fail(record, error),
    });
  }

  list(): PluginRecord[] {
    return this.#records.list();
  }

  get(name: string): PluginRecord {
    return this.#records.get(name);
  }

  /** Starts all modules in parallel, then loads them in sequence, requirements first. */
  async boot(): Promise<void> {
    await this.discover();
    const started = new Map<string, Instance>();
    await Promise.all(
      this.list().map(async (record) => {
        const instance = await this.#startInstance(record).catch((error: unknown) =>
          this.#fail(record, error),
        );
        if (instance) started.set(record.name, instance);
      }),
    );
    const instances = this.list().flatMap(({ name }) => started.get(name) ?? []);
    const nodes = instances.map(({ name, plugin }) => ({ name, requires: plugin.requires ?? [] }));
    const { names, cycles } = sortByDependencies(nodes);
    for (const [name, cycle] of cycles) {
      await this.#options.lifecycle.discard(started.get(name)!);
      this.#fail(this.get(name), new BackplaneError("plugin.invalid", `it requires itself: ${cycle}`));
    }
    for (const name of names) {
      const record = this.get(name);
      await record
        .queue(() => this.#activate(record, started.get(name)!))
        .catch((error: unknown) => this.#fail(record, error));
    }
  }

  /** Reads the installed packages again. Returns the new records. */
  discover(): Promise<PluginRecord[]> {
    return this.#records.discover();
  }

  /** Does nothing for a loaded plugin and only updates the status of a disabled one. Never throws. */
  async load(record: PluginRecord): Promise<void> {
    await record.queue(() => this.#load(record));
  }

  /**
   * Replaces the running instance. Calls in flight end in the old instance. Throws when the new instance cannot be
   * loaded. The old instance then stays active, unless the category or the prefixes of the plugin have changed. A
   * plugin that is not loaded is loaded as by `load`.
   */
  async reload(record: PluginRecord): Promise<void> {
    await record.queue(() => this.#reload(record));
  }

  /** Loads or unloads the plugin according to its `enabled` setting. */
  async applyEnabled(record: PluginRecord): Promise<void> {
    await record.queue(async () => {
      record.settings = await this.#readSettings(record);
      if (record.settings.enabled) await this.#load(record);
      else await this.#unload(record, "disabled");
    });
  }

  /**
   * Unloads the plugin, removes its package and forgets it. A change that is queued behind the removal has no effect.
   */
  async remove(record: PluginRecord, removePackage: () => Promise<void>): Promise<void> {
    await record.queue(async () => {
      await this.#unload(record, "unloaded");
      await removePackage();
      this.#records.forget(record);
    });
  }

  recordOutcome(instance: Instance, failure: unknown): void {
    this.#supervisor.recordOutcome(this.#records.find(instance.name), instance, failure);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const nodes = this.list().map(({ name, instance }) => ({
      name,
      requires: instance?.plugin.requires ?? [],
    }));
    for (const name of sortByDependencies(nodes).names.toReversed()) {
      const record = this.get(name);
      const to = record.settings.enabled ? "unloaded" : "disabled";
      await record.queue(() => this.#unload(record, to));
    }
    for (const instance of this.#retiring.keys()) instance.resolveIdle();
    await Promise.all(this.#retiring.values());
  }

  async #load(record: PluginRecord): Promise<void> {
    if (record.instance !== null || this.#stopped || this.#isForgotten(record)) return;
    record.restart?.stop();
    try {
      const instance = await this.#startInstance(record);
      if (instance !== null) await this.#activate(record, instance);
    } catch (error) {
      this.#fail(record, error);
    }
  }

  async #restart(record: PluginRecord): Promise<void> {
    if (this.#stopped || this.#isForgotten(record)) return;
    const instance = await this.#startInstance(record);
    if (instance !== null) await this.#activate(record, instance, "restart");
  }

  /** Returns null when the plugin is disabled. */
  async #startInstance(record: PluginRecord): Promise<Instance | null> {
    record.settings = await this.#readSettings(record);
    if (!record.settings.enabled) {
      record.status = "disabled";
      return null;
    }
    return await this.#options.lifecycle.startInstance(record.entry, this.#modeFor(record), record.settings);
  }

  async #activate(
    record: PluginRecord,
    instance: Instance,
    phase: "first" | "restart" = "first",
  ): Promise<void> {
    if (record.instance !== null) {
      // A configuration write enabled the plugin while the kernel was booting, so it is already loaded.
      await this.#options.lifecycle.discard(instance);
      return;
    }
    await this.#checkRequires(record, instance);
    const stillWanted = () => !this.#stopped;
    await this.#options.lifecycle.activate(instance, { old: null, api: record.api, stillWanted });
    if (phase === "first") record.failures = 0;
    this.#markLoaded(record, instance);
    const { version, category } = instance.plugin;
    if (phase === "first")
      this.#options.announcer.publish("plugin.loaded", { name: record.name, version, category });
    else this.#options.announcer.publish("plugin.reloaded", { name: record.name, version });
    for (const unblocked of this.#records.unblock(record.name)) void this.load(unblocked);
  }

  async #reload(record: PluginRecord): Promise<void> {
    const { lifecycle, subscriptions, timeouts } = this.#options;
    const old = record.instance;
    if (this.#isForgotten(record))
      throw new BackplaneError("plugin.not_found", `Plugin ${record.name} has been removed.`);
    if (old === null || record.status !== "loaded") {
      await this.discover();
      await this.#load(record);
      return;
    }
    try {
      record.settings = await this.#readSettings(record);
      const entry = (await this.#records.findInstalled(record.name)) ?? record.entry;
      const next = await lifecycle.startInstance(entry, this.#modeFor(record, entry), record.settings);
      if (!subscriptions.canReuse(subscriberFor(next))) {
        // An instance with another category or other prefixes cannot use the same subscription, so the old
        // instance is unloaded first.
        await this.#unload(record, "unloaded");
        record.entry = entry;
        await this.#activate(record, next);
        return;
      }
      await this.#checkRequires(record, next);
      const stillWanted = () => record.instance === old && record.status === "loaded";
      await lifecycle.activate(next, {
        old,
        api: entry.origin === "bundled" || record.settings.api,
        stillWanted,
      });
      record.entry = entry;
      record.failures = 0;
      this.#markLoaded(record, next);
      this.#options.announcer.publish("plugin.reloaded", { name: record.name, version: next.plugin.version });
      const retired = lifecycle.retire(old, timeouts.retire_ms).finally(() => this.#retiring.delete(old));
      this.#retiring.set(old, retired);
    } catch (error) {
      const { message, trace } = describeThrown(error);
      let fix = "Correct the plugin and reload it.";
      if (record.instance === null) this.#fail(record, error);
      else {
        fix += " The version that is already running stays active.";
        Object.assign(record, { error: `reload failed: ${message}`, trace });
        this.#options.announcer.publish("plugin.error", { name: record.name, error: message });
      }
      throw new BackplaneError("plugin.invalid", `${record.name} could not be reloaded: ${message}`, {
        fix,
        cause: error,
      });
    }
  }

  async #unload(record: PluginRecord, to: "unloaded" | "disabled"): Promise<void> {
    const { lifecycle, subscriptions, timeouts } = this.#options;
    record.restart?.stop();
    record.blocked_by = null;
    const { instance } = record;
    if (instance !== null) {
      record.status = "unloading";
      lifecycle.deactivate(instance);
      // When the gateway stops, all calls are already recorded and aborted, so work that still runs ignores
      // its signal and gets only a short drain period.
      await lifecycle.retire(instance, this.#stopped ? STOP_DRAIN_MS : timeouts.drain_ms);
      record.instance = null;
    }
    subscriptions.release(record.name);
    // A stop keeps the status `failed`, so that the failure stays visible.
    if (to === "disabled" || record.status !== "failed") record.status = to;
    if (instance !== null && !this.#stopped)
      this.#options.announcer.publish("plugin.removed", { name: record.name });
  }

  #markLoaded(record: PluginRecord, instance: Instance): void {
    record.instance = instance;
    record.status = "loaded";
    record.error = null;
    record.trace = null;
    record.blocked_by = null;
    record.version = instance.plugin.version;
    record.config_schema = instance.plugin.configSchema ?? null;
    this.#supervisor.watch(record, instance);
  }

  #fail(record: PluginRecord, error: unknown): void {
    const { subscriptions, deps } = this.#options;
    const { message, trace } = describeThrown(error);
    // A failed reload or restart must not change the state of an instance that is still running.
    if (record.instance === null) {
      subscriptions.release(record.name);
      record.status = "failed";
      Object.assign(record, { error: message, trace });
    }
    deps.log.error({ plugin: record.name, code: codeOf(error), trace }, "a plugin could not be loaded");
    this.#options.announcer.publish("plugin.error", { name: record.name, error: message });
  }

  async #checkRequires(record: PluginRecord, instance: Instance): Promise<void> {
    const missing = this.#records.findMissing(instance);
    if (missing === null) return;
    const { name, status } = missing;
    await this.#options.lifecycle.discard(instance);
    record.blocked_by = name;
    throw new BackplaneError(
      "plugin.invalid",
      `it requires ${name}, which ${status === "failed" ? "has" : "is"} ${status}`,
      {
        fix: `Install or repair ${name}.`,
      },
    );
  }

  /** Whether the plugin was removed after the change had been requested. */
  #isForgotten(record: PluginRecord): boolean {
    return this.#records.find(record.name) !== record;
  }

  #modeFor(record: PluginRecord, entry: PluginEntry = record.entry): Mode {
    return entry.origin === "bundled" || record.settings.trusted ? "inline" : "hosted";
  }

  #readSettings({ name }: PluginRecord): Promise<PluginRecord["settings"]> {
    const { config, default_scope } = this.#options.deps;
    return readPluginSettings(config, default_scope.org_id, name);
  }
}
