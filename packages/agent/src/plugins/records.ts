/**
 * The installed plugins. Each plugin has one record, which exists while its package is installed, even if the plugin is
 * not loaded.
 */

import { BackplaneError, type JsonObject, type PluginEntry, type PluginStatus } from "@backplane/contract";
import type { Timer } from "@backplane/ports";
import type { PluginSettings } from "@backplane/registry";
import type { Instance, Mode } from "./instance.ts";
import type { PluginState, PluginSystemDeps } from "./plugins-port.ts";

/** The state of one plugin, and the queue that serializes its changes. */
export class PluginRecord {
  entry: PluginEntry;
  status: PluginStatus = "unloaded";
  instance: Instance | null = null;
  settings: PluginSettings = { enabled: true, trusted: false, api: false, services: [], allowed_domains: [] };
  version: string;
  config_schema: JsonObject | null = null;
  /** Consecutive failures. */
  failures = 0;
  error: string | null = null;
  trace: string | null = null;
  /** The requirement that was not loaded. Once it is loaded, this plugin is loaded again. */
  blocked_by: string | null = null;
  restart: Timer | null = null;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(entry: PluginEntry) {
    this.entry = entry;
    this.version = entry.version;
  }

  get name(): string {
    return this.entry.name;
  }

  /** The mode in which the plugin runs, or would run if it were loaded. */
  get mode(): Mode {
    if (this.instance !== null) return this.instance.mode;
    return this.entry.origin === "bundled" || this.settings.trusted ? "inline" : "hosted";
  }

  /** Whether the plugin may mount routes under /api/. */
  get api(): boolean {
    return this.entry.origin === "bundled" || this.settings.api;
  }

  /** Runs one change at a time, in the order of the requests. */
  queue<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#tail.then(work);
    this.#tail = next.catch(() => {});
    return next;
  }

  /** Resolves when every queued change is done. */
  async waitForChanges(): Promise<void> {
    await this.#tail;
  }

  state(): PluginState {
    const { name, version, status, mode, failures, error, trace } = this;
    const { category, origin } = this.entry;
    return { name, version, category, origin, status, mode, failures, error, trace };
  }
}

export class PluginRecords {
  readonly #deps: Pick<PluginSystemDeps, "loader" | "log">;
  readonly #records = new Map<string, PluginRecord>();

  constructor(deps: Pick<PluginSystemDeps, "loader" | "log">) {
    this.#deps = deps;
  }

  list(): PluginRecord[] {
    return [...this.#records.values()];
  }

  find(name: string): PluginRecord | undefined {
    return this.#records.get(name);
  }

  get(name: string): PluginRecord {
    const record = this.#records.get(name);
    if (record === undefined)
      throw new BackplaneError("plugin.not_found", `Plugin ${name} is not installed.`);
    return record;
  }

  /**
   * Reads the installed packages again and returns the new records. A running plugin keeps the entry from
   * which it was loaded.
   */
  async discover(): Promise<PluginRecord[]> {
    const { loader, log } = this.#deps;
    const { entries, problems } = await loader.discover();
    for (const problem of problems) log.warn(problem, "a package declares a plugin that is not valid");
    const added: PluginRecord[] = [];
    for (const entry of entries) {
      const existing = this.#records.get(entry.name);
      if (existing === undefined) {
        const record = new PluginRecord(entry);
        this.#records.set(entry.name, record);
        added.push(record);
      } else if (existing.instance === null) existing.entry = entry;
    }
    return added;
  }

  /** Returns the installed entry, which can be newer than the running one. */
  async findInstalled(name: string): Promise<PluginEntry | undefined> {
    return (await this.#deps.loader.discover()).entries.find((entry) => entry.name === name);
  }

  forget(record: PluginRecord): void {
    this.#records.delete(record.name);
  }

  /** Returns the first requirement that is not loaded, with its status. */
  findMissing({ plugin }: Instance): { name: string; status: string } | null {
    for (const name of plugin.requires ?? []) {
      const requirement = this.#records.get(name);
      if (requirement?.status !== "loaded") return { name, status: requirement?.status ?? "not installed" };
    }
    return null;
  }

  /** Unblocks and returns the plugins that failed because this one was not loaded. */
  unblock(name: string): PluginRecord[] {
    const unblocked = this.list().filter((record) => record.blocked_by === name);
    for (const record of unblocked) record.blocked_by = null;
    return unblocked;
  }
}
