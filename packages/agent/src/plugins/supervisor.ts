/**
 * Counts the failures of plugins (plug.failures). A plugin is unloaded after `threshold` consecutive
 * failures. The status becomes `unloading` in the same synchronous step as the last failure, so that
 * concurrent failures do not unload the plugin twice. An unexpected process exit counts as a failure, and the
 * plugin is restarted with an increasing delay.
 */
import type { Announcer } from "./announcer.ts";
import { describeThrown } from "./describe-thrown.ts";
import type { Instance } from "./instance.ts";
import type { PluginLifecycle } from "./lifecycle.ts";
import type { PluginSystemDeps, PluginTimeouts } from "./plugins-port.ts";
import type { PluginRecord } from "./records.ts";
import type { PluginSubscriptions } from "./subscriptions.ts";

export interface SupervisorOptions {
  deps: Pick<PluginSystemDeps, "clock" | "log">;
  timeouts: PluginTimeouts;
  /** Consecutive failures after which a plugin is unloaded. */
  threshold: number;
  subscriptions: PluginSubscriptions;
  lifecycle: PluginLifecycle;
  announcer: Announcer;
  /** Restarts a plugin whose process exited. Throws when the restart fails. */
  restart(record: PluginRecord): Promise<void>;
  /** Records that the plugin could not be loaded. */
  fail(record: PluginRecord, error: unknown): void;
}

export class Supervisor {
  readonly #options: SupervisorOptions;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /**
   * Called after each handled event with the thrown value, or null. Outcomes of an earlier instance are
   * ignored.
   */
  recordOutcome(record: PluginRecord | undefined, instance: Instance, failure: unknown): void {
    if (record?.instance !== instance || record.status !== "loaded") return;
    if (failure === null) record.failures = 0;
    else if (++record.failures >= this.#options.threshold) this.#unloadFailed(record, instance, failure);
  }

  /** Watches for the exit of the plugin's process. */
  watch(record: PluginRecord, instance: Instance): void {
    instance.died.catch((error: unknown) => this.#onExit(record, instance, error));
  }

  #unloadFailed(record: PluginRecord, instance: Instance, failure: unknown): void {
    const { lifecycle, subscriptions, threshold, announcer, deps } = this.#options;
    record.status = "unloading";
    lifecycle.deactivate(instance);
    const { message, trace } = describeThrown(failure);
    Object.assign(record, { error: message, trace });
    deps.log.error({ plugin: record.name, trace }, `a plugin failed ${threshold} times in a row`);
    const unloaded = record.queue(async () => {
      await lifecycle.retire(instance, 0);
      subscriptions.release(record.name);
      record.instance = null;
      record.status = "failed";
      announcer.publish("plugin.removed", { name: record.name });
    });
    unloaded.catch((error: unknown) =>
      deps.log.error({ err: error, plugin: record.name }, "unloading a plugin failed"),
    );
  }

  #onExit(record: PluginRecord, instance: Instance, error: unknown): void {
    if (record.instance !== instance || record.status !== "loaded") return;
    const { lifecycle, announcer, threshold } = this.#options;
    const { message, trace } = describeThrown(error);
    announcer.publish("plugin.error", { name: record.name, error: message });
    if (++record.failures >= threshold) {
      this.#unloadFailed(record, instance, error);
      return;
    }
    lifecycle.deactivate(instance);
    record.instance = null;
    record.status = "failed";
    Object.assign(record, { error: `${message}; it is being restarted`, trace });
    void lifecycle.retire(instance, 0);
    this.#restartLater(record);
  }

  #restartLater(record: PluginRecord): void {
    const { deps, timeouts } = this.#options;
    const delay_ms = timeouts.restart_ms * 2 ** (record.failures - 1);
    record.restart = deps.clock.after(delay_ms, () => void record.queue(() => this.#restart(record)));
  }

  /** Does nothing when the plugin was loaded, disabled or removed meanwhile. Never throws. */
  async #restart(record: PluginRecord): Promise<void> {
    if (record.instance !== null || record.status !== "failed") return;
    const { threshold, announcer } = this.#options;
    try {
      await this.#options.restart(record);
    } catch (error) {
      this.#options.fail(record, error);
      if (++record.failures < threshold) this.#restartLater(record);
      else announcer.publish("plugin.removed", { name: record.name });
    }
  }
}
