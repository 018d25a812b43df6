/**
 * The gateway as an MCP server over streamable HTTP: `/mcp` serves the whole catalog, `/mcp/servers/{server}` one bound
 * server under its own names.
 */
import type { IncomingHttpHeaders } from "node:http";
import { MCP_ERRORS } from "@backplane/contract";
import { type Caller, type Clock, type Kernel, type Logger, withChannel } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route, type RouteResponse } from "../http/route.ts";
import type { EventStreams } from "../sse/event-streams.ts";
import { SuspendedCalls } from "./calls/suspended-calls.ts";
import { createPrompts } from "./lists/prompts.ts";
import { createResources } from "./lists/resources.ts";
import { createServerLists } from "./lists/server-lists.ts";
import { createToolPages } from "./lists/tool-pages.ts";
import { findView, type View, WHOLE_CATALOG } from "./lists/view.ts";
import { createViewTools } from "./lists/view-tools.ts";
import { createMethods } from "./methods.ts";
import { createLogLevelForwarding } from "./notifications/forward-log-level.ts";
import { createListWatch } from "./notifications/list-watch.ts";
import { sessionNotifications } from "./notifications/notification-streams.ts";
import { createSubscriptions } from "./notifications/subscriptions.ts";
import { createPostHandler, sessionNotFound } from "./post-message.ts";
import { errorMessage, McpError } from "./protocol/json-rpc.ts";
import { hasStatelessVersion, requestHeader } from "./protocol/revisions.ts";
import { type McpSession, McpSessions } from "./session/sessions.ts";

export interface McpDeps {
  kernel: Kernel;
  clock: Clock;
  log: Logger;
  version: string;
  /** These streams have their own limit, so that many MCP clients do not use up the limit of the other streams. */
  streams: EventStreams;
}

export interface McpServer {
  routes: Route[];
  close(): void;
}

const MCP_CHANNEL = "mcp";
const AUTH = { scope: "invocations:write", delegated: "tools:invoke" } as const;
const Message = z
  .unknown()
  .describe(
    "A JSON-RPC 2.0 message of a supported MCP revision; revisions 2024-11-05 and 2025-03-26 also allow a batch.",
  );

const ServerParams = z.object({
  server: z.string().min(1).max(128).describe("The name of a server, or its binding id."),
});

export function createMcpServer(deps: McpDeps): McpServer {
  const { kernel, clock } = deps;
  const sessions = new McpSessions(clock);
  const list_watch = createListWatch(kernel, clock);
  const suspended = new SuspendedCalls(clock);
  const view_tools = createViewTools(kernel.catalog);
  const server_lists = createServerLists(kernel, clock, deps.log);
  const services = {
    view_tools,
    resources: createResources(server_lists),
    prompts: createPrompts(server_lists),
    subscriptions: createSubscriptions(kernel, clock),
  };
  const methods = createMethods({
    ...services,
    pages: createToolPages(),
    onLevelChanged: createLogLevelForwarding(kernel),
  });
  const server = { name: "backplane", title: "Backplane", version: deps.version };
  const post = createPostHandler({ ...deps, ...services, suspended, sessions, list_watch, methods, server });

  /** Null if the caller sees no such server. Not a promise for the whole catalog (benchmark mcp.http-call.cpu). */
  function findEndpointView(caller: Caller, name: string | null): Promise<View | null> | View {
    return name === null ? WHOLE_CATALOG : findView(kernel, caller, name);
  }

  function findSession(caller: Caller, view: View, headers: IncomingHttpHeaders): McpSession | RouteResponse {
    const id = requestHeader(headers["mcp-session-id"]);
    if (id === undefined || hasStatelessVersion(headers)) return methodNotAllowed();
    return sessions.find(caller, id, view.server?.binding_id ?? null) ?? unknownSession();
  }

  function createEndpoint(
    path: string,
    suffix: string,
    target: string,
    readServerName: (params: unknown) => string | null,
  ) {
    const params = path.includes("{") ? { params: ServerParams } : {};
    const shared = { path, ...params, tag: "MCP", auth: AUTH } as const;
    return [
      defineRoute({
        ...shared,
        method: "POST",
        operation_id: `mcpMessage${suffix}`,
        summary: `Send an MCP message to ${target}`,
        description:
          "The response is JSON, or an event stream when notifications or questions come before the result. " +
          "`initialize` returns an Mcp-Session-Id; requests without one are independent of each other.",
        body: Message,
        responses: {
          200: {
            description: "The JSON-RPC response, as JSON or as server-sent events.",
            schema: z.unknown(),
          },
          202: { description: "The notification was accepted." },
        },
        async handler({ caller: sender, params: path_params, body, request, reply }) {
          const caller = withChannel(sender, MCP_CHANNEL);
          const name = readServerName(path_params);
          const found = findEndpointView(caller, name);
          const view = found instanceof Promise ? await found : found;
          if (view === null) return serverNotFound(name);
          return await post({ caller, view, body, headers: request.raw.headers, reply });
        },
      }),
      defineRoute({
        ...shared,
        method: "GET",
        operation_id: `mcpEvents${suffix}`,
        summary: `Receive notifications of ${target}`,
        responses: { 200: { description: "The stream of the session.", type: "text/event-stream" } },
        async handler({ caller: sender, params: path_params, request, reply }) {
          const caller = withChannel(sender, MCP_CHANNEL);
          const name = readServerName(path_params);
          const view = await findEndpointView(caller, name);
          if (view === null) return serverNotFound(name);
          const session = findSession(caller, view, request.raw.headers);
          if (!("calls" in session)) return session;
          const stream = await sessionNotifications(session, { ...services, list_watch });
          return await deps.streams.stream(reply, stream.items).finally(stream.close);
        },
      }),
      defineRoute({
        ...shared,
        method: "DELETE",
        operation_id: `mcpEndSession${suffix}`,
        summary: `End an MCP session of ${target}`,
        description: "Calls in flight are cancelled.",
        responses: { 204: { description: "Ended." } },
        async handler({ caller: sender, params: path_params, request }) {
          const caller = withChannel(sender, MCP_CHANNEL);
          const name = readServerName(path_params);
          const view = await findEndpointView(caller, name);
          if (view === null) return serverNotFound(name);
          const session = findSession(caller, view, request.raw.headers);
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
    ...createEndpoint("/mcp", "", "the catalog", () => null),
    ...createEndpoint(
      "/mcp/servers/{server}",
      "OfServer",
      "one MCP server, whose tools keep their own names",
      (params) => (params as z.output<typeof ServerParams>).server,
    ),
  ];
  return {
    routes,
    close() {
      list_watch.close();
      services.subscriptions.close();
      server_lists.close();
      suspended.close();
    },
  };
}

function serverNotFound(name: string | null): RouteResponse {
  const error = new McpError(
    MCP_ERRORS.refused,
    `no MCP server named ${name?.slice(0, 128)} is bound here; to list the bound servers, run: backplane binding list`,
  );
  return { status: 404, json: errorMessage(null, error) };
}

function methodNotAllowed(): RouteResponse {
  const error = new McpError(MCP_ERRORS.refused, "without a session only POST is allowed");
  return { status: 405, json: errorMessage(null, error), headers: { allow: "POST" } };
}

function unknownSession(): RouteResponse {
  return { status: 404, json: errorMessage(null, sessionNotFound()) };
}
