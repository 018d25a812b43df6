/**
 * `/mcp`: the catalog as an MCP server over streamable HTTP, and `/mcp/servers/{server}`: one server behind the gateway
 * under its own names. Host, Origin, credential and scope as on every route.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Caller, Clock, Kernel, Logger } from "@backplane/kernel";
import { z } from "zod";
import type { EventStreams } from "../event-streams.ts";
import type { Metrics } from "../metrics.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import { errorMessage, RPC, RpcError } from "./json-rpc.ts";
import { createListWatch } from "./list-watch.ts";
import { createToolPages } from "./list-tools.ts";
import { createLevels } from "./levels.ts";
import { createMethods } from "./methods.ts";
import { Parked } from "./parked.ts";
import { createPost, noSession } from "./post-message.ts";
import { createPrompts } from "./prompts.ts";
import { createResources } from "./resources.ts";
import { namesStateless, one } from "./revisions.ts";
import { sessionEvents } from "./server-events.ts";
import { createServerLists } from "./server-lists.ts";
import { type McpSession, McpSessions } from "./sessions.ts";
import { createSubscriptions } from "./subscriptions.ts";
import { createToolNames } from "./tool-names.ts";
import { EVERYTHING, type View, viewOf } from "./view.ts";

export interface McpDeps {
  kernel: Kernel;
  clock: Clock;
  log: Logger;
  version: string;
  /** Of their own, so that many clients leave room for other readers. */
  streams: EventStreams;
  metrics: Metrics;
}

export interface McpServer {
  routes: Route[];
  close(): void;
}

const AUTH = { scope: "invocations:write", delegated: "tools:invoke" } as const;
const Message = z
  .unknown()
  .describe(
    "One JSON-RPC 2.0 message of MCP 2025-11-25 or 2026-07-28; revision 2025-03-26 also takes a batch.",
  );

const Named = z.object({
  server: z.string().min(1).max(128).describe("A server's name, or its binding id."),
});

export function createMcpServer(deps: McpDeps): McpServer {
  const { kernel, clock } = deps;
  const sessions = new McpSessions(clock);
  const lists = createListWatch(kernel, clock);
  const parked = new Parked(clock);
  const names = createToolNames(kernel.catalog);
  const offered = createServerLists(kernel, clock, deps.log);
  const parts = {
    names,
    resources: createResources(offered),
    prompts: createPrompts(offered),
    subscriptions: createSubscriptions(kernel, clock),
  };
  const methods = createMethods({ ...parts, pages: createToolPages(), levelChanged: createLevels(kernel) });
  const server = { name: "backplane", title: "Backplane", version: deps.version };
  const post = createPost({ ...deps, ...parts, parked, sessions, lists, methods, server });

  /** `view` is null where the caller sees no such server. */
  type Find = (caller: Caller, name: string | null) => Promise<View | null> | View;
  const find: Find = (caller, name) => (name === null ? EVERYTHING : viewOf(kernel, caller, name));

  function sessionIn(caller: Caller, view: View, headers: IncomingHttpHeaders): McpSession | Answer {
    const id = one(headers["mcp-session-id"]);
    if (id === undefined || namesStateless(headers)) return notAllowed("POST");
    return sessions.find(caller, id, view.server?.binding_id ?? null) ?? gone();
  }

  function endpoint(path: string, suffix: string, about: string, nameIn: (params: unknown) => string | null) {
    const params = path.includes("{") ? { params: Named } : {};
    const shared = { path, ...params, tag: "MCP", auth: AUTH } as const;
    return [
      defineRoute({
        ...shared,
        method: "POST",
        operation_id: `mcpMessage${suffix}`,
        summary: `Send an MCP message to ${about}`,
        description:
          "The answer is JSON, or an event stream where the call has something to tell first. `initialize` answers an " +
          "Mcp-Session-Id; requests without one stand alone.",
        body: Message,
        responses: {
          200: { description: "The JSON-RPC answer, as JSON or as server-sent events.", schema: z.unknown() },
          202: { description: "A notification was taken." },
        },
        async handler({ caller, params: given, body, request, reply }) {
          const name = nameIn(given);
          const found = find(caller, name);
          const view = found instanceof Promise ? await found : found;
          if (view === null) return noServer(name);
          return await post({ caller, view, body, headers: request.raw.headers, reply });
        },
      }),
      defineRoute({
        ...shared,
        method: "GET",
        operation_id: `mcpEvents${suffix}`,
        summary: `Hear what ${about} tells by itself`,
        responses: { 200: { description: "The session's stream.", type: "text/event-stream" } },
        async handler({ caller, params: given, request, reply }) {
          const name = nameIn(given);
          const view = await find(caller, name);
          if (view === null) return noServer(name);
          const session = sessionIn(caller, view, request.raw.headers);
          if (!("calls" in session)) return session;
          const source = await sessionEvents(session, { ...parts, lists });
          return await deps.streams.stream(reply, source.items).finally(source.leave);
        },
      }),
      defineRoute({
        ...shared,
        method: "DELETE",
        operation_id: `mcpEndSession${suffix}`,
        summary: `End an MCP session of ${about}`,
        description: "Its calls that still run are cancelled.",
        responses: { 204: { description: "Ended." } },
        async handler({ caller, params: given, request }) {
          const name = nameIn(given);
          const view = await find(caller, name);
          if (view === null) return noServer(name);
          const session = sessionIn(caller, view, request.raw.headers);
          if (!("calls" in session)) return session;
          for (const call of session.calls.values()) {
            call.cancelled = true;
            call.cancel?.();
          }
          sessions.remove(session);
          return { status: 204, empty: true };
        },
      }),
    ];
  }

  const routes = [
    ...endpoint("/mcp", "", "the catalog", () => null),
    ...endpoint(
      "/mcp/servers/{server}",
      "OfServer",
      "one MCP server, under its own names",
      (params) => (params as z.output<typeof Named>).server,
    ),
  ];
  return {
    routes,
    close() {
      lists.close();
      parts.subscriptions.close();
      offered.close();
      parked.close();
    },
  };
}

function noServer(name: string | null): Answer {
  const error = new RpcError(
    RPC.refused,
    `no MCP server ${name?.slice(0, 128)} is bound here; backplane binding list shows what is`,
  );
  return { status: 404, json: errorMessage(null, error) };
}

function notAllowed(allow: string): Answer {
  const error = new RpcError(RPC.refused, "without a session only POST is served here");
  return { status: 405, json: errorMessage(null, error), headers: { allow } };
}

function gone(): Answer {
  return { status: 404, json: errorMessage(null, noSession()) };
}
