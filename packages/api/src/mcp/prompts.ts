/** Prompts of the servers behind. In the whole catalog a prompt is named as a tool is, `mcp_<server>_<prompt>`. */
import type { JsonObject } from "@backplane/contract";
import type { Caller, ServerInfo } from "@backplane/kernel";
import { isObject, RPC, RpcError } from "./json-rpc.ts";
import { pageOf } from "./page.ts";
import { SERVER_META } from "./resources.ts";
import type { ServerLists } from "./server-lists.ts";
import type { View } from "./view.ts";

export interface Prompts {
  list(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  /** The server and its own name of the prompt. Throws where there is none. */
  find(caller: Caller, view: View, name: unknown): Promise<{ server: ServerInfo; name: string }>;
}

export function createPrompts(lists: ServerLists): Prompts {
  return {
    async list(caller, view, cursor) {
      const offered = await lists.list(caller, view, "prompts");
      if (view.server !== null) {
        return pageOf(
          "prompts",
          offered.map(({ item }) => item),
          cursor,
        );
      }
      const shown = new Map<string, JsonObject>();
      for (const { item, server } of offered) {
        const name = nameOf(server, item.name);
        const _meta = { ...(isObject(item._meta) ? item._meta : {}), [SERVER_META]: server.name };
        // Two names that only differ in what is not allowed: the first keeps it.
        if (name !== null && !shown.has(name)) shown.set(name, { ...item, name, _meta });
      }
      return pageOf("prompts", [...shown.values()], cursor);
    },
    async find(caller, view, name) {
      if (typeof name !== "string") throw new RpcError(RPC.invalid_params, "params.name must be a text");
      if (view.server !== null) return { server: view.server, name };
      const offered = await lists.list(caller, view, "prompts");
      const found = offered.find(({ item, server }) => nameOf(server, item.name) === name);
      if (found === undefined)
        throw new RpcError(RPC.invalid_params, `Unknown prompt: ${name.slice(0, 128)}`);
      return { server: found.server, name: found.item.name as string };
    },
  };
}

function nameOf(server: ServerInfo, name: unknown): string | null {
  return typeof name === "string" ? `mcp_${server.name}_${name}` : null;
}
