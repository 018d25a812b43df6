/**
 * The catalog for clients outside of the loop: what a caller is offered, what else there is and why it is not offered,
 * and word of changes. Everything is read from the snapshot that turns take.
 */

import { BackplaneError, type CatalogEntry, type MaybePromise, mapMaybe } from "@backplane/contract";
import type { Caller, Catalog, CatalogTool, Kernel, ToolTable } from "@backplane/ports";
import type { Policies } from "@backplane/registry";
import type { CatalogSnapshot, ToolCatalog } from "./catalog.ts";
import { byName } from "./catalog-entry.ts";
import type { KeptBack } from "./hidden-tools.ts";

export interface Offers {
  catalog: Catalog;
  /** The same bindings, whose changes are heard here. */
  watching(bindings: Kernel["bindings"]): Kernel["bindings"];
  /** Something of this org is offered differently now. */
  changed(org_id: string): void;
}

interface Shown {
  tools: readonly CatalogTool[];
  byName: ReadonlyMap<string, CatalogTool>;
}

export function createOffers(
  catalog: ToolCatalog,
  tools: ToolTable,
  policies: Pick<Policies, "onChanged">,
  keptBack: KeptBack,
): Offers {
  const listeners = new Set<(org_id: string | null) => void>();
  const changed = (org_id: string | null) => {
    catalog.forget();
    for (const listener of listeners) listener(org_id);
  };
  tools.onChanged(() => changed(null));
  policies.onChanged(changed);

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
    catalog: {
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
      onChanged(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    changed,
    watching(bindings) {
      const after = <T>(caller: Caller, work: Promise<T>): Promise<T> =>
        work.then((done) => {
          changed(caller.scope.org_id);
          // Whoever lost a name by this is warned of now, and not when somebody happens to look.
          void Promise.resolve(catalog.snapshot(caller)).catch(() => undefined);
          return done;
        });
      return {
        ...bindings,
        create: (caller, body) => after(caller, bindings.create(caller, body)),
        patch: (caller, id, body, expected) => after(caller, bindings.patch(caller, id, body, expected)),
        upgrade: (caller, body) => after(caller, bindings.upgrade(caller, body)),
        rollback: (caller, id, expected) => after(caller, bindings.rollback(caller, id, expected)),
        remove: (caller, id, expected) => after(caller, bindings.remove(caller, id, expected)),
      };
    },
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
