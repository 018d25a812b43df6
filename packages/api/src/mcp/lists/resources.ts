/**
 * Resources of the bound servers, under their own URIs. When several servers offer the same URI, a server of the
 * project takes precedence over one of the org, then the one that was bound first; the list mentions the others in
 * `_meta`. The names of the servers do not matter. A URI that is not listed is matched against the resource templates.
 */
import { isObject, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { Caller, ServerInfo } from "@backplane/ports";
import { McpError } from "../protocol/json-rpc.ts";
import { paginate } from "../protocol/pagination.ts";
import type { ServerItem, ServerLists } from "./server-lists.ts";
import type { View } from "./view.ts";

export const SERVER_META = "backplane/server";
const ALSO_META = "backplane/also_offered_by";

export interface Resources {
  list(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  listTemplates(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  /** In the view of the whole catalog, throws when no server offers the URI. */
  findServer(caller: Caller, view: View, uri: unknown, stateless: boolean): Promise<ServerInfo>;
}

export function createResources(lists: ServerLists): Resources {
  return {
    async list(caller, view, cursor) {
      const offered = await lists.list(caller, view, "resources");
      return paginate(
        "resources",
        view.server === null ? mergeByUri(offered, "uri") : itemsOf(offered),
        cursor,
      );
    },
    async listTemplates(caller, view, cursor) {
      const offered = await lists.list(caller, view, "resourceTemplates");
      const items = view.server === null ? mergeByUri(offered, "uriTemplate") : itemsOf(offered);
      return paginate("resourceTemplates", items, cursor);
    },
    async findServer(caller, view, uri, stateless) {
      if (typeof uri !== "string")
        throw new McpError(MCP_ERRORS.invalid_params, "params.uri must be a string");
      // A server may have resources that it does not list, so its own endpoint always forwards the request.
      if (view.server !== null) return view.server;
      const listed = await lists.list(caller, view, "resources");
      const exact = listed.find(({ item }) => item.uri === uri);
      if (exact !== undefined) return exact.server;
      const templates = await lists.list(caller, view, "resourceTemplates");
      const match = templates.find(({ item }) => matchesTemplate(item.uriTemplate, uri));
      if (match !== undefined) return match.server;
      const code = stateless ? MCP_ERRORS.invalid_params : MCP_ERRORS.resource_not_found;
      throw new McpError(code, "Resource not found", { uri: uri.slice(0, 1024) });
    },
  };
}

function itemsOf(offered: readonly ServerItem[]): JsonObject[] {
  return offered.map(({ item }) => item);
}

function mergeByUri(offered: readonly ServerItem[], uri_field: "uri" | "uriTemplate"): JsonObject[] {
  const first = new Map<string, { item: JsonObject; server: ServerInfo; other_servers: string[] }>();
  for (const { item, server } of offered) {
    const uri = item[uri_field];
    if (typeof uri !== "string") continue;
    const existing = first.get(uri);
    if (existing === undefined) first.set(uri, { item, server, other_servers: [] });
    else existing.other_servers.push(server.name);
  }
  return [...first.values()].map(({ item, server, other_servers }) => ({
    ...item,
    _meta: {
      ...(isObject(item._meta) ? item._meta : {}),
      [SERVER_META]: server.name,
      ...(other_servers.length === 0 ? {} : { [ALSO_META]: other_servers }),
    },
  }));
}

/**
 * Whether a URI could have been expanded from a template. Simple expressions match one segment; `{+x}` and similar
 * expressions match anything, which is enough to find the server. The literals are searched from left to right without
 * backtracking, so the time is bounded for every template.
 */
export function matchesTemplate(template: unknown, uri: string): boolean {
  if (typeof template !== "string") return false;
  const [head = "", ...rest] = template.split(/(\{[^{}]*\})/);
  if (!uri.startsWith(head)) return false;
  let at = head.length;
  for (let i = 0; i < rest.length; i += 2) {
    const text = rest[i + 1]!;
    const last = i + 2 >= rest.length;
    const position =
      last && text === "" ? uri.length : last ? uri.length - text.length : uri.indexOf(text, at);
    if (position < at || !uri.startsWith(text, position)) return false;
    const wide = /^\{[+#/?&;.]/.test(rest[i]!);
    if (!wide && /[/?#]/.test(uri.slice(at, position))) return false;
    at = position + text.length;
  }
  return at === uri.length;
}
