/**
 * Every tool of the loaded kernel plugins by name. Each name has one owner. When a typed and a legacy tool
 * share a name, the typed tool is called and a warning is logged.
 */

import { BackplaneError } from "@backplane/contract";
import type { Changes, Logger, RegisteredTool, ToolTable } from "@backplane/ports";

interface Place {
  typed: RegisteredTool | null;
  legacy: RegisteredTool | null;
}

export class Tools implements ToolTable {
  readonly #log: Logger;
  readonly #changes: Pick<Changes, "emit">;
  readonly #places = new Map<string, Place>();
  #listed: readonly RegisteredTool[] | null = null;

  constructor(log: Logger, changes: Pick<Changes, "emit">) {
    this.#log = log;
    this.#changes = changes;
  }

  get(name: string): RegisteredTool | null {
    const place = this.#places.get(name);
    return place?.typed ?? place?.legacy ?? null;
  }

  list(): readonly RegisteredTool[] {
    this.#listed ??= [...this.#places.keys()].toSorted().map((name) => this.get(name)!);
    return this.#listed;
  }

  /** Throws when the name belongs to another plugin. */
  check(tool: RegisteredTool): void {
    const taken = this.#places.get(tool.spec.name)?.[tool.legacy ? "legacy" : "typed"];
    if (taken === undefined || taken === null || taken.plugin === tool.plugin) return;
    const message = `the tool name ${tool.spec.name} is taken by ${taken.plugin}`;
    throw new BackplaneError("plugin.invalid", message, {
      fix: "Rename the tool, or disable the other plugin.",
    });
  }

  /** Replaces the old tools with the new ones in one step. Throws before any change is made. */
  replace(old: Iterable<RegisteredTool>, next: Iterable<RegisteredTool>): void {
    const added = [...next];
    for (const tool of added) this.check(tool);
    const dropped = [...old];
    for (const tool of added) this.#put(tool);
    for (const tool of dropped) this.#drop(tool);
    if (added.length + dropped.length > 0) this.#changed();
  }

  #put(tool: RegisteredTool): void {
    const place = this.#places.get(tool.spec.name) ?? { typed: null, legacy: null };
    place[tool.legacy ? "legacy" : "typed"] = tool;
    this.#places.set(tool.spec.name, place);
    const { typed, legacy } = place;
    if (typed === null || legacy === null) return;
    const plugins = { typed: typed.plugin, legacy: legacy.plugin };
    this.#log.warn(
      { tool: tool.spec.name, ...plugins },
      "a typed and a legacy tool have one name; the typed one is used",
    );
  }

  #drop(tool: RegisteredTool): void {
    const place = this.#places.get(tool.spec.name);
    if (place === undefined) return;
    // A newer instance of the plugin may already have registered its own tool under this name.
    if (place.typed === tool) place.typed = null;
    if (place.legacy === tool) place.legacy = null;
    if (place.typed === null && place.legacy === null) this.#places.delete(tool.spec.name);
  }

  #changed(): void {
    this.#listed = null;
    this.#changes.emit("plugin_tools.changed", {});
  }
}
