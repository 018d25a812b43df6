/** Composes the API of one kernel: a Fastify instance that is ready to listen. */

import type { IncomingHttpHeaders } from "node:http";
import { codeOf, type IdSource } from "@backplane/contract";
import type { Clock, Kernel, Logger, StoreSummary } from "@backplane/ports";
import Fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import { createAuthenticator } from "../auth/authenticate.ts";
import { createConsoleLogin, type SavedConsoleSessions } from "../auth/console-login.ts";
import { checkRequestGate, type Gate, withApiKey } from "../auth/gate.ts";
import { createHostCheck } from "../auth/hosts.ts";
import { envelopeFor, toErrorResponse } from "../http/error-envelope.ts";
import { createMetrics, type Metrics } from "../http/metrics.ts";
import { NosniffResponse } from "../http/nosniff-response.ts";
import type { Route } from "../http/route.ts";
import { createEndpointCalls } from "../llm/answer-call.ts";
import { endpointErrorResponse } from "../llm/endpoint-error.ts";
import { mcpErrorBody } from "../mcp/error-body.ts";
import { createMcpServer } from "../mcp/mcp-server.ts";
import { parseJsonBody } from "../requests/json-body.ts";
import { buildRoutes } from "../routes/route-table.ts";
import { createEventStreams } from "../sse/event-streams.ts";
import { attachWebSockets } from "../ws/upgrade.ts";
import { registerAdapterRoutes } from "./adapter-routes.ts";
import { respondToClientError } from "./client-error.ts";
import { registerRoutes } from "./register-routes.ts";
import { createUnknownRouteErrors } from "./unknown-route.ts";

export interface ApiOptions {
  kernel: Kernel;
  auth: {
    /** Lower-case hex SHA-256 of the admin token. */
    admin_token_sha256: string;
    /** Keeps sessions of the console across a restart. If absent, a restart ends them. */
    saved_sessions?: SavedConsoleSessions;
  };
  listen: {
    /** Allowed host names besides the loopback ones, with or without a port. */
    hosts: readonly string[];
    /** Behind TLS: the session cookie of the console is marked Secure. */
    secure?: boolean;
    /** Makes the server terminate TLS itself. */
    tls?: { cert: string; key: string } | undefined;
  };
  limits?: { body_bytes?: number; upload_bytes?: number; event_streams?: number; sockets?: number };
  /** False until the kernel has recovered. The server listens earlier, because the kernel needs its port. */
  started?: () => boolean;
  version: string;
  /** Read for each status request. Without it, the status contains no summary of the store. */
  storeSummary?: () => Promise<StoreSummary>;
  /** The folder of the example plugins. */
  examples_folder?: string | undefined;
  clock: Clock;
  ids: IdSource;
  log: Logger;
  metrics?: Metrics;
  /** The page that explains error codes; `#code` is appended. */
  docs_url?: string;
}

export interface Api extends FastifyInstance {
  /** A code for `/login?code=…`, which works once and expires after five minutes. */
  mintLoginCode(): string;
  /** The table that the OpenAPI document is generated from. */
  readonly routeTable: readonly Route[];
  /** All routes registered with Fastify, as `METHOD path`; a test compares them with the document. */
  readonly servedRoutes: readonly string[];
}

const BODY_BYTES = 1024 * 1024;
const UPLOAD_BYTES = 256 * 1024 * 1024;
const EVENT_STREAMS = 512;
const SOCKETS = 10_000;

/** Routes check requests with their own schemas, so Fastify need not load its compilers, which are slow to load. */
const NO_SCHEMAS = {
  buildValidator: () => rejectSchema,
  buildSerializer: () => rejectSchema,
};

function rejectSchema(): never {
  throw new Error("A route must not have a Fastify schema.");
}

export async function createApi(options: ApiOptions): Promise<Api> {
  const { kernel, clock, ids, log } = options;
  const docs_url = options.docs_url ?? "/docs/errors";
  const metrics = options.metrics ?? createMetrics();
  const console_login = createConsoleLogin(clock, options.auth.saved_sessions);
  const hosts = createHostCheck(options.listen.hosts);
  let closing = false;
  const gate: Gate = {
    hosts,
    authenticator: createAuthenticator({
      keys: kernel.keys,
      admin_token_sha256: options.auth.admin_token_sha256,
      console_login,
      hosts,
    }),
    stopping: () => closing,
    started: options.started ?? (() => true),
  };

  const app = Fastify({
    ...serverOptions(options.listen.tls),
    logger: false,
    exposeHeadRoutes: false,
    bodyLimit: options.limits?.body_bytes ?? BODY_BYTES,
    // While closing, the gate responds with the error envelope.
    return503OnClosing: false,
    requestTimeout: 300_000,
    routerOptions: { maxParamLength: 512 },
    schemaController: { compilersFactory: NO_SCHEMAS },
    genReqId: (raw) => acceptRequestId(raw.headers["x-request-id"]) ?? ids.next("request"),
    frameworkErrors: (error, request, reply) => void sendError(error, request.id, reply),
    clientErrorHandler: (error, socket) =>
      respondToClientError(error, socket, (thrown) => toErrorResponse(thrown, ids.next("request"), docs_url)),
  });
  app.decorateRequest("caller", null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, bytes, done) => {
    try {
      done(null, parseJsonBody(bytes as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });

  const isCredentialValid = async (headers: IncomingHttpHeaders): Promise<boolean> => {
    try {
      await gate.authenticator.authenticate(headers, false);
      return true;
    } catch (error) {
      // When the store is unavailable, the credential may still be valid.
      return codeOf(error)?.startsWith("auth.") !== true;
    }
  };
  const createStreams = (max: number) =>
    createEventStreams({
      clock,
      max,
      count: (change) => metrics.countStream(change),
      describe: (error, request_id) => {
        const { envelope, unexpected } = toErrorResponse(error, request_id, docs_url);
        if (unexpected !== null) log.error({ request_id, err: unexpected }, "request failed");
        return JSON.stringify(envelope);
      },
      isCredentialValid: ({ raw }) => isCredentialValid(raw.headers),
    });
  const streams = createStreams(options.limits?.event_streams ?? EVENT_STREAMS);
  const mcp_streams = createStreams(options.limits?.sockets ?? SOCKETS);
  const mcp = createMcpServer({
    kernel,
    clock,
    log,
    version: options.version,
    streams: mcp_streams,
  });
  const endpoint_calls = createEndpointCalls({
    kernel,
    clock,
    isCredentialValid: ({ raw }) => isCredentialValid(withApiKey(raw.headers)),
    describe: (error, request_id) => {
      const response = toErrorResponse(error, request_id, docs_url);
      if (response.unexpected !== null) log.error({ request_id, err: response.unexpected }, "request failed");
      return response;
    },
  });
  const routes = buildRoutes(
    {
      kernel,
      clock,
      endpoint_calls,
      version: options.version,
      storeSummary: options.storeSummary ?? (() => Promise.reject(new Error("the store has no summary"))),
      examples_folder: options.examples_folder ?? null,
      console_login,
      streams,
      metrics,
      secure: options.listen.secure ?? options.listen.tls !== undefined,
      upload_bytes: options.limits?.upload_bytes ?? UPLOAD_BYTES,
      stopping: () => closing,
    },
    mcp.routes,
  );

  const sendError = (thrown: unknown, request_id: string, reply: FastifyReply) => {
    const response = toErrorResponse(thrown, request_id, docs_url);
    if (response.unexpected !== null) log.error({ request_id, err: response.unexpected }, "request failed");
    if (response.retry_after_s !== null) reply.header("retry-after", String(response.retry_after_s));
    if (response.status === 401) reply.header("www-authenticate", 'Bearer realm="backplane"');
    const endpoint_error = endpointErrorResponse(reply.request, response);
    if (endpoint_error !== null) reply.headers(endpoint_error.headers);
    const body =
      endpoint_error?.body ??
      mcpErrorBody(reply.request, response) ??
      envelopeFor(reply.request, response.envelope);
    return reply
      .code(endpoint_error?.status ?? response.status)
      .header("x-request-id", request_id)
      .header("content-type", "application/json; charset=utf-8")
      .send(JSON.stringify(body));
  };
  app.setErrorHandler((error, request, reply) => sendError(error, request.id, reply));
  const unknown = metrics.route("unknown");
  const describeUnknown = createUnknownRouteErrors(routes);
  app.setNotFoundHandler((request, reply) => {
    try {
      checkRequestGate(gate, request, reply);
      const { error, allow } = describeUnknown(request.method, request.url);
      if (allow !== null) reply.header("allow", allow);
      sendError(error, request.id, reply);
    } catch (error) {
      sendError(error, request.id, reply);
    }
    unknown.count(reply.statusCode, reply.elapsedTime);
    return reply;
  });

  const served_routes: string[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const each of [method].flat()) served_routes.push(`${each} ${url}`);
  });
  registerRoutes(app, routes, { gate, metrics, streams, clock });
  registerAdapterRoutes(app, { adapters: kernel.adapters, gate, metrics, unknown });
  app.decorate("servedRoutes", served_routes);
  app.decorate("mintLoginCode", () => console_login.mintCode());
  app.decorate("routeTable", routes);
  const sockets = attachWebSockets(app.server, {
    kernel,
    gate,
    describe: (error) => toErrorResponse(error, ids.next("request"), docs_url),
    clock,
    log,
    limits: {
      frame_bytes: options.limits?.body_bytes ?? BODY_BYTES,
      sockets: options.limits?.sockets ?? SOCKETS,
    },
  });
  app.addHook("preClose", async () => {
    closing = true;
    streams.close();
    mcp_streams.close();
    endpoint_calls.close();
    mcp.close();
    await sockets.close();
  });
  app.addHook("onClose", async () => metrics.close());
  await app.ready();
  return app as unknown as Api;
}

function serverOptions(tls: { cert: string; key: string } | undefined) {
  // The gate rejects a request without a Host header, with the error envelope.
  const common = { ServerResponse: NosniffResponse, requireHostHeader: false };
  return tls === undefined ? { http: common } : { https: { ...tls, ...common } };
}

/** A client may send its own request id, so that the same id is in its logs and in ours. */
function acceptRequestId(sent: string | string[] | undefined): string | null {
  return typeof sent === "string" && /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/.test(sent) ? sent : null;
}
