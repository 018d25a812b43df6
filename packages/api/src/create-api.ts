/** The HTTP edge: a Fastify instance, ready to listen, that speaks for one kernel. It starts nothing itself. */
import Fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import { codeOf, type IdSource } from "@backplane/contract";
import type { Clock, Kernel, Logger } from "@backplane/kernel";
import { answerClientError } from "./client-error.ts";
import { createAuthenticator } from "./auth/authenticate.ts";
import { createHostCheck } from "./auth/hosts.ts";
import { createSignIn } from "./auth/sign-in.ts";
import { answerError, envelopeFor } from "./error-envelope.ts";
import { createEventStreams } from "./event-streams.ts";
import { parseJsonBody } from "./json-body.ts";
import { NosniffResponse } from "./nosniff-response.ts";
import { mcpRefusal } from "./mcp/refusal.ts";
import { createMcpServer } from "./mcp/routes.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { enter, type Gate, registerRoutes } from "./register-routes.ts";
import type { Route } from "./route.ts";
import { mountAdapters } from "./routes/adapters.ts";
import { buildRoutes } from "./routes/index.ts";
import { createUnknownRoute } from "./unknown-route.ts";
import { installWs } from "./ws/upgrade.ts";

export interface ApiOptions {
  kernel: Kernel;
  /** Lower-case hex sha256 of the admin token; the token itself stays with the gateway. */
  auth: { admin_token_sha256: string };
  listen: {
    /** Names, with or without a port, beside the loopback ones. */
    hosts: readonly string[];
    /** True behind TLS: the console's cookie is then marked Secure. */
    secure?: boolean;
    /** Serves TLS itself. */
    tls?: { cert: string; key: string } | undefined;
  };
  limits?: { body_bytes?: number; upload_bytes?: number; event_streams?: number; sockets?: number };
  /** False until the kernel has recovered: the socket is open before that, because its port must be known. */
  started?: () => boolean;
  version: string;
  clock: Clock;
  ids: IdSource;
  log: Logger;
  metrics?: Metrics;
  /** Where error codes are explained; `#code` is added. */
  docs_url?: string;
}

export interface Api extends FastifyInstance {
  /** A code for `/login?code=…`: opens once, within five minutes. */
  mintLoginCode(): string;
  /** The route table that the OpenAPI document is made from. */
  readonly routeTable: readonly Route[];
  /** What Fastify really serves, as `METHOD path`: a test compares it with the document. */
  readonly servedRoutes: readonly string[];
}

const BODY_BYTES = 1024 * 1024;
const UPLOAD_BYTES = 256 * 1024 * 1024;
const EVENT_STREAMS = 512;
const SOCKETS = 10_000;

export async function createApi(options: ApiOptions): Promise<Api> {
  const { kernel, clock, ids, log } = options;
  const docs_url = options.docs_url ?? "/docs/errors";
  const metrics = options.metrics ?? createMetrics();
  const sign_in = createSignIn(clock);
  const hosts = createHostCheck(options.listen.hosts);
  let closing = false;
  const gate: Gate = {
    hosts,
    authenticator: createAuthenticator({
      keys: kernel.keys,
      admin_token_sha256: options.auth.admin_token_sha256,
      sign_in,
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
    // Our own answer while closing has our envelope.
    return503OnClosing: false,
    requestTimeout: 300_000,
    routerOptions: { maxParamLength: 512 },
    genReqId: (raw) => acceptRequestId(raw.headers["x-request-id"]) ?? ids.next("request"),
    frameworkErrors: (error, request, reply) => void fail(error, request.id, reply),
    clientErrorHandler: (error, socket) =>
      answerClientError(error, socket, (thrown) => answerError(thrown, ids.next("request"), docs_url)),
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

  const openStreams = (max: number) =>
    createEventStreams({
      clock,
      max,
      count: (change) => metrics.streams(change),
      describe: (error, request_id) => JSON.stringify(answerError(error, request_id, docs_url).envelope),
      holds: async ({ raw }) => {
        try {
          await gate.authenticator.authenticate(raw.headers, false);
          return true;
        } catch (error) {
          // A store that does not answer says nothing about the credential.
          return codeOf(error)?.startsWith("auth.") !== true;
        }
      },
    });
  const streams = openStreams(options.limits?.event_streams ?? EVENT_STREAMS);
  const mcp_streams = openStreams(options.limits?.sockets ?? SOCKETS);
  const mcp = createMcpServer({
    kernel,
    clock,
    log,
    version: options.version,
    streams: mcp_streams,
    metrics,
  });
  const routes = buildRoutes({
    kernel,
    clock,
    version: options.version,
    sign_in,
    streams,
    mcp: mcp.routes,
    metrics,
    secure: options.listen.secure ?? options.listen.tls !== undefined,
    upload_bytes: options.limits?.upload_bytes ?? UPLOAD_BYTES,
    stopping: () => closing,
  });

  const fail = (thrown: unknown, request_id: string, reply: FastifyReply) => {
    const answer = answerError(thrown, request_id, docs_url);
    if (answer.unexpected !== null) log.error({ request_id, err: answer.unexpected }, "a request failed");
    if (answer.retry_after_s !== null) reply.header("retry-after", String(answer.retry_after_s));
    if (answer.status === 401) reply.header("www-authenticate", 'Bearer realm="backplane"');
    return reply
      .code(answer.status)
      .header("x-request-id", request_id)
      .header("content-type", "application/json; charset=utf-8")
      .send(JSON.stringify(mcpRefusal(reply.request, answer) ?? envelopeFor(reply.request, answer.envelope)));
  };
  app.setErrorHandler((error, request, reply) => fail(error, request.id, reply));
  const unknown = metrics.route("unknown");
  const refuseUnknown = createUnknownRoute(routes);
  app.setNotFoundHandler((request, reply) => {
    try {
      enter(request, reply, gate);
      const { error, allow } = refuseUnknown(request.method, request.url);
      if (allow !== null) reply.header("allow", allow);
      fail(error, request.id, reply);
    } catch (error) {
      fail(error, request.id, reply);
    }
    unknown.count(reply.statusCode, reply.elapsedTime);
    return reply;
  });

  const served: string[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat()) served.push(`${one} ${url}`);
  });
  registerRoutes(app, routes, gate, metrics);
  mountAdapters(app, { adapters: kernel.adapters, gate, metrics, unknown });
  app.decorate("servedRoutes", served);
  app.decorate("mintLoginCode", () => sign_in.mintCode());
  app.decorate("routeTable", routes);
  const sockets = installWs(app.server, {
    kernel,
    gate,
    answer: (error) => answerError(error, ids.next("request"), docs_url),
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
    mcp.close();
    await sockets.close();
  });
  app.addHook("onClose", async () => metrics.close());
  await app.ready();
  return app as unknown as Api;
}

/** A request without a Host header is refused by our own check, which answers with the envelope. */
function serverOptions(tls: { cert: string; key: string } | undefined) {
  const common = { ServerResponse: NosniffResponse, requireHostHeader: false };
  return tls === undefined ? { http: common } : { https: { ...tls, ...common } };
}

/** A client may bring its own id, so that one id runs through its logs and ours. */
function acceptRequestId(sent: string | string[] | undefined): string | null {
  return typeof sent === "string" && /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/.test(sent) ? sent : null;
}
