/** `/mcp`: the catalog as an MCP server over streamable HTTP. Host, Origin, credential and scope as on every route. */
import type { Clock, Kernel, Logger } from "@backplane/kernel";
import { z } from "zod";
import type { EventStreams } from "../event-streams.ts";
import type { Metrics } from "../metrics.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import { errorMessage, RPC, RpcError } from "./json-rpc.ts";
import { createListWatch } from "./list-watch.ts";
import { createToolPages } from "./list-tools.ts";
import { createMethods } from "./methods.ts";
import { createPost, noSession } from "./post-message.ts";
import { namesStateless, one } from "./revisions.ts";
import { sessionEvents } from "./server-events.ts";
import { McpSessions } from "./sessions.ts";

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

export function createMcpServer(deps: McpDeps): McpServer {
  const { kernel, clock } = deps;
  const sessions = new McpSessions(clock);
  const lists = createListWatch(kernel.catalog, clock);
  const methods = createMethods({ kernel, pages: createToolPages() });
  const server = { name: "backplane", title: "Backplane", version: deps.version };
  const post = createPost({ ...deps, sessions, lists, methods, server });

  const routes = [
    defineRoute({
      method: "POST",
      path: "/mcp",
      operation_id: "mcpMessage",
      summary: "Send an MCP message",
      description:
        "The answer is JSON, or an event stream where the call has something to tell first. `initialize` answers an " +
        "Mcp-Session-Id; requests without one stand alone.",
      tag: "MCP",
      auth: AUTH,
      body: Message,
      responses: {
        200: { description: "The JSON-RPC answer, as JSON or as server-sent events.", schema: z.unknown() },
        202: { description: "A notification was taken." },
      },
      handler: ({ caller, body, request, reply }) =>
        post({ caller, body, headers: request.raw.headers, reply }),
    }),
    defineRoute({
      method: "GET",
      path: "/mcp",
      operation_id: "mcpEvents",
      summary: "Hear what the MCP server tells by itself",
      tag: "MCP",
      auth: AUTH,
      responses: { 200: { description: "The session's stream.", type: "text/event-stream" } },
      async handler({ caller, request, reply }) {
        const id = one(request.raw.headers["mcp-session-id"]);
        if (id === undefined || namesStateless(request.raw.headers)) return notAllowed("POST");
        const session = sessions.find(caller, id);
        if (session === null) return gone();
        const source = await sessionEvents(session, lists);
        return await deps.streams.stream(reply, source.items).finally(source.leave);
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/mcp",
      operation_id: "mcpEndSession",
      summary: "End an MCP session",
      description: "Its calls that still run are cancelled.",
      tag: "MCP",
      auth: AUTH,
      responses: { 204: { description: "Ended." } },
      handler({ caller, request }) {
        const id = one(request.raw.headers["mcp-session-id"]);
        if (id === undefined || namesStateless(request.raw.headers)) return notAllowed("POST");
        const session = sessions.find(caller, id);
        if (session === null) return gone();
        for (const call of session.calls.values()) {
          call.cancelled = true;
          if (call.invocation_id !== null)
            void kernel.invocations.cancel(caller, call.invocation_id).catch(() => undefined);
        }
        sessions.remove(session);
        return { status: 204, empty: true };
      },
    }),
  ];
  return { routes, close: () => lists.close() };
}

function notAllowed(allow: string): Answer {
  const error = new RpcError(RPC.refused, "without a session only POST is served here");
  return { status: 405, json: errorMessage(null, error), headers: { allow } };
}

function gone(): Answer {
  return { status: 404, json: errorMessage(null, noSession()) };
}
