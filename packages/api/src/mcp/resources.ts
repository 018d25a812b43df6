/**
 * Resources of the servers behind: addresses are kept as they are. Where two servers offer the same address, the one
 * bound first serves it and the list says so; no server takes another's by how it is called. What is in no list is looked for among the templates.
 */
import type { JsonObject } from "@backplane/contract";
import type { Caller, ServerInfo } from "@backplane/kernel";
import { isObject, RPC, RpcError } from "./json-rpc.ts";
import { pageOf } from "./page.ts";
import type { Offered, ServerLists } from "./server-lists.ts";
import type { View } from "./view.ts";

export const SERVER_META = "backplane/server";
const ALSO_META = "backplane/also_offered_by";

export interface Resources {
  list(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  templates(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  /** Throws where nobody offers the address. */
  serverOf(caller: Caller, view: View, uri: unknown, stateless: boolean): Promise<ServerInfo>;
}

export function createResources(lists: ServerLists): Resources {
  return {
    async list(caller, view, cursor) {
      const offered = await lists.list(caller, view, "resources");
      return pageOf("resources", view.server === null ? merged(offered, "uri") : itemsOf(offered), cursor);
    },
    async templates(caller, view, cursor) {
      const offered = await lists.list(caller, view, "resourceTemplates");
      const items = view.server === null ? merged(offered, "uriTemplate") : itemsOf(offered);
      return pageOf("resourceTemplates", items, cursor);
    },
    async serverOf(caller, view, uri, stateless) {
      if (typeof uri !== "string") throw new RpcError(RPC.invalid_params, "params.uri must be a text");
      // One server knows best what it has: not everything that can be read is listed.
      if (view.server !== null) return view.server;
      const listed = await lists.list(caller, view, "resources");
      const exact = listed.find(({ item }) => item.uri === uri);
      if (exact !== undefined) return exact.server;
      const templates = await lists.list(caller, view, "resourceTemplates");
      const fits = templates.find(({ item }) => fitsTemplate(item.uriTemplate, uri));
      if (fits !== undefined) return fits.server;
      const code = stateless ? RPC.invalid_params : RPC.resource_not_found;
      throw new RpcError(code, "Resource not found", { uri: uri.slice(0, 1024) });
    },
  };
}

function itemsOf(offered: readonly Offered[]): JsonObject[] {
  return offered.map(({ item }) => item);
}

function merged(offered: readonly Offered[], address: "uri" | "uriTemplate"): JsonObject[] {
  const first = new Map<string, { item: JsonObject; server: ServerInfo; also: string[] }>();
  for (const { item, server } of offered) {
    const uri = item[address];
    if (typeof uri !== "string") continue;
    const there = first.get(uri);
    if (there === undefined) first.set(uri, { item, server, also: [] });
    else there.also.push(server.name);
  }
  return [...first.values()].map(({ item, server, also }) => ({
    ...item,
    _meta: {
      ...(isObject(item._meta) ? item._meta : {}),
      [SERVER_META]: server.name,
      ...(also.length === 0 ? {} : { [ALSO_META]: also }),
    },
  }));
}

/**
 * Simple expressions stand for one segment, `{+x}` and the like for anything; enough to know whose address it is. The
 * texts between them are looked for from left to right, so no template makes this slow.
 */
export function fitsTemplate(template: unknown, uri: string): boolean {
  if (typeof template !== "string") return false;
  const [head = "", ...rest] = template.split(/(\{[^{}]*\})/);
  if (!uri.startsWith(head)) return false;
  let at = head.length;
  for (let i = 0; i < rest.length; i += 2) {
    const text = rest[i + 1]!;
    const last = i + 2 >= rest.length;
    const found = last && text === "" ? uri.length : last ? uri.length - text.length : uri.indexOf(text, at);
    if (found < at || !uri.startsWith(text, found)) return false;
    const wide = /^\{[+#/?&;.]/.test(rest[i]!);
    if (!wide && /[/?#]/.test(uri.slice(at, found))) return false;
    at = found + text.length;
  }
  return at === uri.length;
}
