/**
 * What the servers of a view offer beside tools, merged. A server's list is asked for once and kept until it says that it
 * has changed, or for a moment where it never says so. A server that does not answer is left out of the whole catalog's
 * lists; the endpoint of one server tells its error.
 */
import { hiddenIn, type JsonObject, plainJson, toBackplaneError } from "@backplane/contract";
import type { Caller, Clock, Kernel, Logger, ServerInfo } from "@backplane/kernel";
import { isObject } from "./json-rpc.ts";
import { silent } from "./server-work.ts";
import { serversOf, type View } from "./view.ts";

type ListKind = "resources" | "resourceTemplates" | "prompts";

/** One thing that a server offers, under the server's own name for it. */
export interface Offered {
  server: ServerInfo;
  item: JsonObject;
}

export interface ServerLists {
  list(caller: Caller, view: View, kind: ListKind): Promise<readonly Offered[]>;
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
/** By these it is asked for, so they cannot be changed on the way. */
const IDENTITY = ["uri", "uriTemplate", "name"] as const;
const TOLD_MS = 60_000;
const UNTOLD_MS = 2_000;
const PAGES = 100;
const ITEMS = 10_000;
/** Of one list; the server behind decides how much it says. */
const LIST_CHARS = 8_000_000;
const KEPT = 1_024;

interface Kept {
  binding_id: string;
  until: number;
  items: Promise<JsonObject[]>;
}

export function createServerLists(kernel: Kernel, clock: Clock, log: Logger): ServerLists {
  const known = new Map<string, Kept>();
  const stop = kernel.servers.onNotice(({ binding_id, method }) => {
    if (!method.endsWith("/list_changed")) return;
    for (const [key, kept] of known) if (kept.binding_id === binding_id) known.delete(key);
  });

  async function read(caller: Caller, { binding_id }: ServerInfo, kind: ListKind): Promise<JsonObject[]> {
    const items: JsonObject[] = [];
    let cursor: string | undefined;
    let size = 0;
    for (let page = 0; page < PAGES; page++) {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const answer = await kernel.servers.request(caller, binding_id, METHODS[kind], params, silent());
      if (!isObject(answer)) return items;
      const given = answer[kind];
      for (const item of Array.isArray(given) ? given : []) {
        if (!isObject(item)) continue;
        if (IDENTITY.some((key) => typeof item[key] === "string" && hiddenIn(item[key]).length > 0)) {
          log.warn(
            { binding_id },
            `an MCP server names one of its ${kind} with hidden characters; it is left out`,
          );
          continue;
        }
        size += JSON.stringify(item).length;
        if (items.length >= ITEMS || size > LIST_CHARS) {
          log.warn({ binding_id }, `an MCP server lists too many ${kind}; the rest is left out`);
          return items;
        }
        items.push(plainJson(item));
      }
      if (typeof answer.nextCursor !== "string" || answer.nextCursor === cursor) return items;
      cursor = answer.nextCursor;
    }
    return items;
  }

  function listOf(caller: Caller, server: ServerInfo, kind: ListKind): Promise<JsonObject[]> {
    const capability = server.capabilities[CAPABILITY[kind]];
    if (!isObject(capability)) return NOTHING;
    const key = `${server.binding_id}\n${caller.scope.project_id}\n${kind}`;
    const now = clock.monotonic();
    const there = known.get(key);
    if (there !== undefined && now < there.until) return there.items;
    const items = read(caller, server, kind);
    const until = now + (capability.listChanged === true ? TOLD_MS : UNTOLD_MS);
    known.delete(key);
    known.set(key, { binding_id: server.binding_id, until, items });
    if (known.size > KEPT) known.delete(known.keys().next().value!);
    items.catch(() => known.delete(key));
    return items;
  }

  return {
    async list(caller, view, kind) {
      const servers = await serversOf(kernel, caller, view);
      const lists = await Promise.all(
        servers.map(async (server) => {
          try {
            return (await listOf(caller, server, kind)).map((item) => ({ server, item }));
          } catch (error) {
            if (view.server !== null) throw error;
            const { code } = toBackplaneError(error);
            log.warn({ server: server.name, code }, `an MCP server did not list its ${kind}`);
            return [];
          }
        }),
      );
      return lists.flat();
    },
    close: stop,
  };
}

const NOTHING: Promise<JsonObject[]> = Promise.resolve([]);
