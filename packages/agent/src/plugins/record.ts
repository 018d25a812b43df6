/** What is known of one plugin, loaded or not, and the line in which its changes wait for each other. */

import type { JsonObject, PluginEntry, PluginStatus } from "@backplane/contract";
import type { Timer } from "@backplane/ports";
import type { PluginSettings } from "@backplane/registry";
import type { Instance, Mode } from "./instance.ts";
import type { PluginState } from "./plugins-port.ts";

export class PluginRecord {
  entry: PluginEntry;
  status: PluginStatus = "unloaded";
  instance: Instance | null = null;
  settings: PluginSettings = { enabled: true, trusted: false, api: false, services: [], allowed_domains: [] };
  version: string;
  config_schema: JsonObject | null = null;
  /** Consecutive. */
  failures = 0;
  error: string | null = null;
  trace: string | null = null;
  /** The requirement for whose sake it failed: when that is loaded, this one is tried again. */
  blocked_by: string | null = null;
  restart: Timer | null = null;
  #line: Promise<unknown> = Promise.resolve();

  constructor(entry: PluginEntry) {
    this.entry = entry;
    this.version = entry.version;
  }

  get name(): string {
    return this.entry.name;
  }

  /** The mode it runs in, or would. */
  get mode(): Mode {
    if (this.instance !== null) return this.instance.mode;
    return this.entry.origin === "bundled" || this.settings.trusted ? "inline" : "hosted";
  }

  get api(): boolean {
    return this.entry.origin === "bundled" || this.settings.api;
  }

  /** One change of a plugin at a time, in the order in which they were asked for. */
  queue<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#line.then(work);
    this.#line = next.catch(() => {});
    return next;
  }

  /** When every change that was asked for is done. */
  async settled(): Promise<void> {
    await this.#line;
  }

  state(): PluginState {
    const { name, version, status, mode, failures, error, trace } = this;
    const { category, origin } = this.entry;
    return { name, version, category, origin, status, mode, failures, error, trace };
  }
}
