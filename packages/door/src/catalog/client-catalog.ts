/**
 * The catalog for clients outside the loop: the tools that a caller is offered, the others with the reason why they
 * are not, and notifications of changes. The tools in the catalog are read from the same snapshots that turns use.
 */

import { BackplaneError, type CatalogEntry, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { Caller, Catalog, CatalogTool, Changes } from "@backplane/ports";
import type { CatalogSnapshot, ToolCatalog } from "./catalog.ts";
import { compareEntries } from "./catalog-entry.ts";
import type { ListHiddenTools } from "./hidden-tools.ts";
import { searchTools } from "./search-tools.ts";

interface ClientTools {
  tools: readonly CatalogTool[];
  by_name: ReadonlyMap<string, CatalogTool>;
}

export function createClientCatalog(
  catalog: ToolCatalog,
  changes: Changes,
  listHiddenTools: ListHiddenTools,
): Catalog {
  const notifyChanged = (org_id: string | null) => {
    catalog.forget();
    changes.emit("catalog.changed", { org_id });
  };
  changes.on("plugin_tools.changed", () => notifyChanged(null));
  changes.on("policy.changed", ({ org_id }) => notifyChanged(org_id));
  changes.on("definitions.changed", ({ org_id }) => notifyChanged(org_id));
  changes.on("bindings.changed", ({ caller }) => {
    notifyChanged(caller.scope.org_id);
    // Reading the catalog logs name collisions, so the warning follows the change that caused the collision.
    void Promise.resolve(catalog.snapshot(caller)).catch(() => undefined);
  });

  // Many calls share a snapshot, so its client view is built once.
  const views = new WeakMap<CatalogSnapshot, ClientTools>();
  const getSnapshotView = (snapshot: CatalogSnapshot): ClientTools => {
    let view = views.get(snapshot);
    if (view === undefined) {
      view = buildView(snapshot);
      views.set(snapshot, view);
    }
    return view;
  };
  // Returns no promise while a fresh snapshot is cached (benchmark mcp.http-call).
  const getView = (caller: Caller): MaybePromise<ClientTools> =>
    mapMaybe(catalog.snapshot(caller), getSnapshotView);

  async function listAll(caller: Caller): Promise<CatalogEntry[]> {
    const [{ entries }, hidden] = await Promise.all([catalog.snapshot(caller), listHiddenTools(caller)]);
    return [...entries, ...hidden].sort(compareEntries);
  }

  return {
    list: async (caller) => (await getView(caller)).tools,
    find: (caller, name) => mapMaybe(getView(caller), ({ by_name }) => by_name.get(name) ?? null),
    async search(caller, query, limit) {
      const snapshot = await catalog.snapshot(caller);
      const { by_name } = getSnapshotView(snapshot);
      const deferred = [...snapshot.tools.values()].filter(({ deferred_by }) => deferred_by !== null);
      return searchTools(deferred, query, limit).flatMap(({ name }) => by_name.get(name) ?? []);
    },
    listEntries: async (caller, { all }) => {
      if (all) return await listAll(caller);
      const { entries } = await catalog.snapshot(caller);
      return entries.filter(({ status }) => status === "offered");
    },
    async get(caller, name) {
      const matches = (await listAll(caller)).filter((entry) => entry.name === name);
      if (matches.length === 0) throw new BackplaneError("tool.not_found", `There is no tool ${name}.`);
      return matches;
    },
    onChanged: (listener) => changes.on("catalog.changed", ({ org_id }) => listener(org_id)),
  };
}

function buildView(snapshot: CatalogSnapshot): ClientTools {
  const tools: CatalogTool[] = [];
  for (const {
    name,
    description,
    parameters,
    binding_id,
    package_id,
    origin,
    details,
    deferred_by,
  } of snapshot.tools.values()) {
    // Core tools act on the turn that calls them, so they are useless outside a turn.
    if (origin === "core") continue;
    const deferred = deferred_by !== null;
    tools.push({
      name,
      description,
      input_schema: parameters,
      binding_id,
      package_id,
      origin,
      deferred,
      ...details,
    });
  }
  tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { tools, by_name: new Map(tools.map((tool) => [tool.name, tool])) };
}
