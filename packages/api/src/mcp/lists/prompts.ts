/**
 * Prompts of the bound servers. In the view of the whole catalog they are named like tools, `mcp_<server>_<prompt>`; in
 * the view of one server they keep the server's own names.
 */
import { isObject, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { Caller, ServerInfo } from "@backplane/ports";
import { McpError } from "../protocol/json-rpc.ts";
import { paginate } from "../protocol/pagination.ts";
import { SERVER_META } from "./resources.ts";
import type { ServerLists } from "./server-lists.ts";
import type { View } from "./view.ts";

export interface Prompts {
  list(caller: Caller, view: View, cursor: unknown): Promise<JsonObject>;
  /**
   * Returns the server and its own name for the prompt. In the view of the whole catalog, throws when no server offers
   * the prompt; in the view of one server, that server checks the name.
   */
  find(caller: Caller, view: View, name: unknown): Promise<{ server: ServerInfo; name: string }>;
}

export function createPrompts(lists: ServerLists): Prompts {
  return {
    async list(caller, view, cursor) {
      const offered = await lists.list(caller, view, "prompts");
      if (view.server !== null) {
        return paginate(
          "prompts",
          offered.map(({ item }) => item),
          cursor,
        );
      }
      const by_name = new Map<string, JsonObject>();
      for (const { item, server } of offered) {
        const name = toPromptName(server, item.name);
        const _meta = { ...(isObject(item._meta) ? item._meta : {}), [SERVER_META]: server.name };
        // Different servers and prompts can result in the same name; the first one keeps it.
        if (name !== null && !by_name.has(name)) by_name.set(name, { ...item, name, _meta });
      }
      return paginate("prompts", [...by_name.values()], cursor);
    },
    async find(caller, view, name) {
      if (typeof name !== "string")
        throw new McpError(MCP_ERRORS.invalid_params, "params.name must be a string");
      if (view.server !== null) return { server: view.server, name };
      const offered = await lists.list(caller, view, "prompts");
      const prompt = offered.find(({ item, server }) => toPromptName(server, item.name) === name);
      if (prompt === undefined)
        throw new McpError(MCP_ERRORS.invalid_params, `Unknown prompt: ${name.slice(0, 128)}`);
      return { server: prompt.server, name: prompt.item.name as string };
    },
  };
}

function toPromptName(server: ServerInfo, name: unknown): string | null {
  return typeof name === "string" ? `mcp_${server.name}_${name}` : null;
}
