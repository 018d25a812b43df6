/**
 * The tools of the loaded kernel plugins, by name. No two typed tools and no two legacy tools have the same name. When
 * a typed and a legacy tool share a name, the typed tool is called and a warning is logged.
 */

import { BackplaneError } from "@backplane/contract";
import type { Changes, Logger, RegisteredTool, ToolTable } from "@backplane/ports";

interface NamedTools {
  typed: RegisteredTool | null;
  legacy: RegisteredTool | null;
}

export class PluginTools implements ToolTable {
  readonly #log: Logger;
  readonly #changes: Pick<Changes, "emit">;
  readonly #by_name = new Map<string, NamedTools>();
  #sorted: readonly RegisteredTool[] | null = null;

  constructor(log: Logger, changes: Pick<Changes, "emit">) {
    this.#log = log;
    this.#changes = changes;
  }

  get(name: string): RegisteredTool | null {
    const named = this.#by_name.get(name);
    return named?.typed ?? named?.legacy ?? null;
  }

  list(): readonly RegisteredTool[] {
    this.#sorted ??= [...this.#by_name.keys()].toSorted().map((name) => this.get(name)!);
    return this.#sorted;
  }

  /** Throws when another plugin has a tool of the same kind with this name. */
  check(tool: RegisteredTool): void {
    const existing = this.#by_name.get(tool.spec.name)?.[tool.legacy ? "legacy" : "typed"];
    if (existing === undefined || existing === null || existing.plugin === tool.plugin) return;
    const message = `the tool name ${tool.spec.name} is taken by ${existing.plugin}`;
    throw new BackplaneError("plugin.invalid", message, {
      fix: "Rename the tool, or disable the other plugin.",
    });
  }

  /** Replaces the old tools with the new ones in one step. If this throws, nothing has changed. */
  replace(old: Iterable<RegisteredTool>, next: Iterable<RegisteredTool>): void {
    const added = [...next];
    for (const tool of added) this.check(tool);
    const removed = [...old];
    for (const tool of added) this.#add(tool);
    for (const tool of removed) this.#remove(tool);
    if (added.length + removed.length > 0) this.#onChanged();
  }

  #add(tool: RegisteredTool): void {
    const named = this.#by_name.get(tool.spec.name) ?? { typed: null, legacy: null };
    named[tool.legacy ? "legacy" : "typed"] = tool;
    this.#by_name.set(tool.spec.name, named);
    const { typed, legacy } = named;
    if (typed === null || legacy === null) return;
    const plugins = { typed: typed.plugin, legacy: legacy.plugin };
    this.#log.warn(
      { tool: tool.spec.name, ...plugins },
      "a typed and a legacy tool have the same name; the typed one is used",
    );
  }

  #remove(tool: RegisteredTool): void {
    const named = this.#by_name.get(tool.spec.name);
    if (named === undefined) return;
    // A newer instance of the plugin may already have registered its own tool under this name.
    if (named.typed === tool) named.typed = null;
    if (named.legacy === tool) named.legacy = null;
    if (named.typed === null && named.legacy === null) this.#by_name.delete(tool.spec.name);
  }

  #onChanged(): void {
    this.#sorted = null;
    this.#changes.emit("plugin_tools.changed", {});
  }
}
