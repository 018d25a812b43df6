/**
 * The catalog for clients outside of the loop: what a caller is offered, what else there is and why it is not offered,
 * and word of changes. Everything is read from the snapshot that turns take.
 */

import { BackplaneError, type CatalogEntry, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { Caller, Catalog, CatalogTool, Changes } from "@backplane/ports";
import type { CatalogSnapshot, ToolCatalog } from "./catalog.ts";
import { byName } from "./catalog-entry.ts";
import type { KeptBack } from "./hidden-tools.ts";

interface Shown {
  tools: readonly CatalogTool[];
  byName: ReadonlyMap<string, CatalogTool>;
}

export function createOffers(catalog: ToolCatalog, changes: Changes, keptBack: KeptBack): Catalog {
  const changed = (org_id: string | null) => {
    catalog.forget();
    changes.emit("catalog.changed", { org_id });
  };
  changes.on("plugin_tools.changed", () => changed(null));
  changes.on("policy.changed", ({ org_id }) => changed(org_id));
  changes.on("definitions.changed", ({ org_id }) => changed(org_id));
  changes.on("bindings.changed", ({ caller }) => {
    changed(caller.scope.org_id);
    // A snapshot logs each tool that lost its name to another one. It is taken now, not when somebody happens to look.
    void Promise.resolve(catalog.snapshot(caller)).catch(() => undefined);
  });

  // A snapshot is shared by many calls; what is made of it is made once.
  const made = new WeakMap<CatalogSnapshot, Shown>();
  const shownOf = (snapshot: CatalogSnapshot): Shown => {
    let found = made.get(snapshot);
    if (found === undefined) {
      found = show(snapshot);
      made.set(snapshot, found);
    }
    return found;
  };
  const shown = (caller: Caller): MaybePromise<Shown> => mapMaybe(catalog.snapshot(caller), shownOf);

  async function everything(caller: Caller): Promise<CatalogEntry[]> {
    const [{ entries }, out] = await Promise.all([catalog.snapshot(caller), keptBack(caller)]);
    return [...entries, ...out].sort(byName);
  }

  return {
    list: async (caller) => (await shown(caller)).tools,
    find: (caller, name) => mapMaybe(shown(caller), ({ byName }) => byName.get(name) ?? null),
    entries: async (caller, { all }) => {
      if (all) return await everything(caller);
      const { entries } = await catalog.snapshot(caller);
      return entries.filter(({ status }) => status === "offered");
    },
    async get(caller, name) {
      const named = (await everything(caller)).filter((entry) => entry.name === name);
      if (named.length === 0) throw new BackplaneError("tool.not_found", `there is no tool ${name}`);
      return named;
    },
    onChanged: (listener) => changes.on("catalog.changed", ({ org_id }) => listener(org_id)),
  };
}

function show(snapshot: CatalogSnapshot): Shown {
  const tools: CatalogTool[] = [];
  for (const {
    name,
    description,
    parameters,
    binding_id,
    package_id,
    origin,
    about,
  } of snapshot.tools.values()) {
    // They act in a turn and for its caller; outside of one there is no use in them.
    if (origin === "core") continue;
    tools.push({ name, description, input_schema: parameters, binding_id, package_id, origin, ...about });
  }
  tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { tools, byName: new Map(tools.map((tool) => [tool.name, tool])) };
}
