/** The tools of a view by the names that the view gives them. Made once per catalog: the kernel answers the same array. */
import { hiddenIn, type Soon } from "@backplane/contract";
import type { Caller, Catalog, CatalogTool, ServerInfo } from "@backplane/kernel";
import type { View } from "./view.ts";

export interface NamedTool {
  name: string;
  tool: CatalogTool;
}

export interface ToolNames {
  /** By name. The same array as long as nothing has changed. */
  list(caller: Caller, view: View): Promise<readonly NamedTool[]>;
  find(caller: Caller, view: View, name: string): Soon<CatalogTool | null>;
}

interface Named {
  tools: readonly NamedTool[];
  byName: ReadonlyMap<string, CatalogTool>;
}

export function createToolNames(catalog: Catalog): ToolNames {
  const known = new WeakMap<readonly CatalogTool[], Map<ServerInfo["tools"] | null, Named>>();

  async function named(caller: Caller, { server }: View): Promise<Named> {
    const all = await catalog.list(caller);
    let views = known.get(all);
    if (views === undefined) {
      views = new Map();
      known.set(all, views);
    }
    // The same array until a server describes itself differently; the rest may be made anew for each request.
    const key = server?.tools ?? null;
    let found = views.get(key);
    if (found === undefined) {
      found = make(all, server);
      views.set(key, found);
    }
    return found;
  }

  return {
    list: async (caller, view) => (await named(caller, view)).tools,
    find(caller, view, name) {
      if (view.server === null) return catalog.find(caller, name);
      return named(caller, view).then(({ byName }) => byName.get(name) ?? null);
    },
  };
}

function make(all: readonly CatalogTool[], server: ServerInfo | null): Named {
  const tools = server === null ? all.map((tool) => ({ name: tool.name, tool })) : ownTools(all, server);
  return { tools, byName: new Map(tools.map(({ name, tool }) => [name, tool])) };
}

/** What the caller is offered of one server, always from that very binding. */
function ownTools(all: readonly CatalogTool[], { binding_id, package_id, tools }: ServerInfo): NamedTool[] {
  const offered = new Map(all.map((tool) => [tool.name, tool]));
  const own = tools.flatMap(({ name, export_id }) => {
    const tool = offered.get(export_id);
    // Another package may have the name: then it is that one's, and this server's tool is not offered.
    if (tool?.package_id !== package_id) return [];
    // A client asks for it by its name, so what cannot be seen cannot be a mark in it.
    return [{ name: hiddenIn(name).length > 0 ? export_id : name, tool: { ...tool, binding_id } }];
  });
  return own.sort((a, b) => (a.name < b.name ? -1 : 1));
}
