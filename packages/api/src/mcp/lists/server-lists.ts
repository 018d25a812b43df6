/**
 * The resources, resource templates and prompts of all servers of a view. A list is cached until the server reports
 * that it has changed, at most for a minute, or for two seconds if the server sends no such notifications. A server
 * that fails is omitted from the lists of the whole catalog; the endpoint of one server returns its error.
 */
import {
  findHiddenCharacters,
  isObject,
  type JsonObject,
  sanitizeJson,
  toBackplaneError,
} from "@backplane/contract";
import type { Caller, Clock, Kernel, Logger, ServerInfo } from "@backplane/ports";
import { sendServerRequest } from "./send-server-request.ts";
import { listViewServers, type View } from "./view.ts";

type ListKind = "resources" | "resourceTemplates" | "prompts";

/** An item of a server's list, under the server's own name. */
export interface ServerItem {
  server: ServerInfo;
  item: JsonObject;
}

export interface ServerLists {
  list(caller: Caller, view: View, kind: ListKind): Promise<readonly ServerItem[]>;
  close(): void;
}

const METHODS: Record<ListKind, string> = {
  resources: "resources/list",
  resourceTemplates: "resources/templates/list",
  prompts: "prompts/list",
};
const CAPABILITY: Record<ListKind, "resources" | "prompts"> = {
  resources: "resources",
  resourceTemplates: "resources",
  prompts: "prompts",
};
/** Clients request an item by these fields, so hidden characters in them cannot be replaced. */
const IDENTITY = ["uri", "uriTemplate", "name"] as const;
/** For a server that sends change notifications, and for one that does not. */
const TTL_MS = { notified: 60_000, unnotified: 2_000 };
const MAX_PAGES = 100;
const MAX_ITEMS = 10_000;
const MAX_LIST_CHARS = 8_000_000;
const MAX_CACHED_LISTS = 1_024;

interface CachedList {
  binding_id: string;
  expires_at: number;
  items: Promise<JsonObject[]>;
}

export function createServerLists(kernel: Kernel, clock: Clock, log: Logger): ServerLists {
  const cache = new Map<string, CachedList>();
  const stop = kernel.servers.onNotification(({ binding_id, method }) => {
    if (!method.endsWith("/list_changed")) return;
    for (const [key, cached] of cache) if (cached.binding_id === binding_id) cache.delete(key);
  });

  async function fetchItems(
    caller: Caller,
    { binding_id }: ServerInfo,
    kind: ListKind,
  ): Promise<JsonObject[]> {
    const items: JsonObject[] = [];
    let cursor: string | undefined;
    let size = 0;
    for (let page = 0; page < MAX_PAGES; page++) {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const answer = await sendServerRequest(kernel, caller, binding_id, METHODS[kind], params);
      if (!isObject(answer)) return items;
      const listed = answer[kind];
      for (const item of Array.isArray(listed) ? listed : []) {
        if (!isObject(item)) continue;
        if (
          IDENTITY.some((key) => typeof item[key] === "string" && findHiddenCharacters(item[key]).length > 0)
        ) {
          log.warn(
            { binding_id },
            `omitted one of the ${kind} of an MCP server: its URI or name contains hidden characters`,
          );
          continue;
        }
        size += JSON.stringify(item).length;
        if (items.length >= MAX_ITEMS || size > MAX_LIST_CHARS) {
          log.warn({ binding_id }, `truncated the ${kind} of an MCP server: the list is too long`);
          return items;
        }
        items.push(sanitizeJson(item));
      }
      if (typeof answer.nextCursor !== "string" || answer.nextCursor === cursor) return items;
      cursor = answer.nextCursor;
    }
    return items;
  }

  function getCachedList(caller: Caller, server: ServerInfo, kind: ListKind): Promise<JsonObject[]> {
    const capability = server.capabilities[CAPABILITY[kind]];
    if (!isObject(capability)) return EMPTY;
    const key = `${server.binding_id}\n${caller.scope.project_id}\n${kind}`;
    const now = clock.monotonic();
    const cached = cache.get(key);
    if (cached !== undefined && now < cached.expires_at) return cached.items;
    const items = fetchItems(caller, server, kind);
    const expires_at = now + (capability.listChanged === true ? TTL_MS.notified : TTL_MS.unnotified);
    cache.delete(key);
    cache.set(key, { binding_id: server.binding_id, expires_at, items });
    if (cache.size > MAX_CACHED_LISTS) cache.delete(cache.keys().next().value!);
    items.catch(() => cache.delete(key));
    return items;
  }

  return {
    async list(caller, view, kind) {
      const servers = await listViewServers(kernel, caller, view);
      const lists = await Promise.all(
        servers.map(async (server) => {
          try {
            return (await getCachedList(caller, server, kind)).map((item) => ({ server, item }));
          } catch (error) {
            if (view.server !== null) throw error;
            const { code } = toBackplaneError(error);
            log.warn({ server: server.name, code }, `listing the ${kind} of an MCP server failed`);
            return [];
          }
        }),
      );
      return lists.flat();
    },
    close: stop,
  };
}

const EMPTY: Promise<JsonObject[]> = Promise.resolve([]);
