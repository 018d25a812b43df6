/**
 * The tools of a view under the names of that view. Computed once for each catalog: the kernel returns the same array
 * until something changes.
 */
import { findHiddenCharacters, type MaybePromise } from "@backplane/contract";
import type { Caller, Catalog, CatalogTool, ServerInfo } from "@backplane/ports";
import { withoutDeferred } from "./deferred-tools.ts";
import type { View } from "./view.ts";

export interface NamedTool {
  name: string;
  tool: CatalogTool;
}

export interface ViewTools {
  /**
   * Returns the tools sorted by name, in the same array until something changes. The view of the whole catalog omits
   * deferred tools.
   */
  list(caller: Caller, view: View): Promise<readonly NamedTool[]>;
  /** Returns no promise while the catalog is cached (benchmark mcp.http-call). */
  find(caller: Caller, view: View, name: string): MaybePromise<CatalogTool | null>;
}

interface NamedToolList {
  tools: readonly NamedTool[];
  by_name: ReadonlyMap<string, CatalogTool>;
}

export function createViewTools(catalog: Catalog): ViewTools {
  const cache = new WeakMap<readonly CatalogTool[], Map<ServerInfo["tools"] | null, NamedToolList>>();

  async function getNamedToolList(caller: Caller, { server }: View): Promise<NamedToolList> {
    const all = await catalog.list(caller);
    let views = cache.get(all);
    if (views === undefined) {
      views = new Map();
      cache.set(all, views);
    }
    // The `tools` array of a server stays the same until its description changes; the server object does not.
    const key = server?.tools ?? null;
    let named = views.get(key);
    if (named === undefined) {
      named = nameTools(all, server);
      views.set(key, named);
    }
    return named;
  }

  return {
    list: async (caller, view) => (await getNamedToolList(caller, view)).tools,
    find(caller, view, name) {
      if (view.server === null) return catalog.find(caller, name);
      return getNamedToolList(caller, view).then(({ by_name }) => by_name.get(name) ?? null);
    },
  };
}

function nameTools(all: readonly CatalogTool[], server: ServerInfo | null): NamedToolList {
  const tools =
    server === null
      ? withoutDeferred(all).map((tool) => ({ name: tool.name, tool }))
      : selectServerTools(all, server);
  return { tools, by_name: new Map(tools.map(({ name, tool }) => [name, tool])) };
}

/** The tools of one server that the caller may call, each through that server's own binding. */
function selectServerTools(
  all: readonly CatalogTool[],
  { binding_id, package_id, tools }: ServerInfo,
): NamedTool[] {
  const offered = new Map(all.map((tool) => [tool.name, tool]));
  const server_tools = tools.flatMap(({ name, export_id }) => {
    const tool = offered.get(export_id);
    // When another package has the name, the tool of this server is not in the catalog.
    if (tool?.package_id !== package_id) return [];
    // A client calls the tool by this name, so hidden characters cannot be replaced; the export id is used instead.
    return [
      { name: findHiddenCharacters(name).length > 0 ? export_id : name, tool: { ...tool, binding_id } },
    ];
  });
  return server_tools.sort((a, b) => (a.name < b.name ? -1 : 1));
}
