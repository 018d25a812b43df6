/** Which plugins are installed: one record each, kept while its package is, whatever becomes of the plugin. */
import { BackplaneError, type PluginEntry } from "@backplane/contract";
import type { Instance } from "./instance.ts";
import type { PluginSystemDeps } from "./plugins-port.ts";
import { PluginRecord } from "./record.ts";

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
    if (record === undefined) throw new BackplaneError("plugin.not_found", `there is no plugin ${name}`);
    return record;
  }

  /** Looks again at what is installed. Answers the records that are new; one that runs keeps what it was loaded from. */
  async discover(): Promise<PluginRecord[]> {
    const { loader, log } = this.#deps;
    const { entries, problems } = await loader.discover();
    for (const problem of problems) log.warn(problem, "a package says that it is a plugin and is none");
    const added: PluginRecord[] = [];
    for (const entry of entries) {
      const known = this.#records.get(entry.name);
      if (known === undefined) {
        const record = new PluginRecord(entry);
        this.#records.set(entry.name, record);
        added.push(record);
      } else if (known.instance === null) known.entry = entry;
    }
    return added;
  }

  /** What is installed now, which may be newer than what runs. */
  async installed(name: string): Promise<PluginEntry | undefined> {
    return (await this.#deps.loader.discover()).entries.find((entry) => entry.name === name);
  }

  forget(record: PluginRecord): void {
    this.#records.delete(record.name);
  }

  /** The first requirement that is not loaded, and what it is instead. */
  missing({ plugin }: Instance): { name: string; why: string } | null {
    for (const name of plugin.requires ?? []) {
      const needed = this.#records.get(name);
      if (needed?.status !== "loaded") return { name, why: needed?.status ?? "not installed" };
    }
    return null;
  }

  /** Those that failed for the sake of this one; they may be tried again. */
  unblock(name: string): PluginRecord[] {
    const freed = this.list().filter((record) => record.blocked_by === name);
    for (const record of freed) record.blocked_by = null;
    return freed;
  }
}
