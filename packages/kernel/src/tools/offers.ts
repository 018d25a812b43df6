/**
 * The catalog for clients outside of the loop: what a caller may see of it, and word of its changes. A guest and a
 * plugin's own token are shown only what they may call.
 */
import type { Kernel } from "../facade.ts";
import type { Catalog, CatalogTool } from "../facade-agent.ts";
import type { ToolTable } from "../plugins/plugins-port.ts";
import type { Caller } from "../ports/index.ts";
import type { OfferedTool, ToolCatalog } from "./catalog.ts";

export interface Offers {
  catalog: Catalog;
  /** The same bindings, whose changes are heard here. */
  watching(bindings: Kernel["bindings"]): Kernel["bindings"];
  /** Something of this org is offered differently now. */
  changed(org_id: string): void;
}

type Snapshot = ReadonlyMap<string, OfferedTool>;
interface Shown {
  tools: readonly CatalogTool[];
  byName: ReadonlyMap<string, CatalogTool>;
}

export function createOffers(catalog: ToolCatalog, tools: ToolTable): Offers {
  const listeners = new Set<(org_id: string | null) => void>();
  const tell = (org_id: string | null) => {
    for (const listener of listeners) listener(org_id);
  };
  tools.onChanged(() => tell(null));
  const changed = (org_id: string) => {
    catalog.forget();
    tell(org_id);
  };

  // A snapshot is shared by many calls; what is made of it is made once.
  const all = new WeakMap<Snapshot, Shown>();
  const readable = new WeakMap<Snapshot, Shown>();
  async function shown(caller: Caller): Promise<Shown> {
    const snapshot = await catalog.snapshot(caller);
    const allowed = caller.delegation?.grant.tools ?? null;
    if (allowed !== null) return make(snapshot, caller, allowed);
    const kept = caller.role === "guest" ? readable : all;
    let found = kept.get(snapshot);
    if (found === undefined) {
      found = make(snapshot, caller, null);
      kept.set(snapshot, found);
    }
    return found;
  }

  return {
    catalog: {
      list: async (caller) => (await shown(caller)).tools,
      find: async (caller, name) => (await shown(caller)).byName.get(name) ?? null,
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
          return done;
        });
      return {
        ...bindings,
        create: (caller, body) => after(caller, bindings.create(caller, body)),
        patch: (caller, id, body, expected) => after(caller, bindings.patch(caller, id, body, expected)),
        remove: (caller, id, expected) => after(caller, bindings.remove(caller, id, expected)),
      };
    },
  };
}

function make(snapshot: Snapshot, { role }: Caller, allowed: readonly string[] | null): Shown {
  const tools: CatalogTool[] = [];
  for (const { name, description, parameters, binding_id, about } of snapshot.values()) {
    if (allowed !== null && !allowed.includes(name)) continue;
    if (role === "guest" && about.effect_class !== "read_only") continue;
    tools.push({ name, description, input_schema: parameters, binding_id, ...about });
  }
  tools.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { tools, byName: new Map(tools.map((tool) => [tool.name, tool])) };
}
