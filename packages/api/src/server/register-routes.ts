/**
 * Registers the route table with Fastify. Order for every request: host and origin, state of the gateway, credential,
 * scope, body, schemas, handler. Everything that depends only on the route is computed at registration and not per
 * request (benchmark http.invoke.cpu).
 */
import { Readable } from "node:stream";
import type { Caller, Clock } from "@backplane/ports";
import type { FastifyInstance, FastifyReply } from "fastify";
import { z } from "zod";
import { authenticateRequest, checkRequestGate, type Gate } from "../auth/gate.ts";
import type { Metrics, RouteMeter } from "../http/metrics.ts";
import { prefersEventStream } from "../http/prefers-event-stream.ts";
import { fastifyPath, type Route, type RouteContext, type RouteResponse } from "../http/route.ts";
import { extractBodyScope } from "../requests/body-scope.ts";
import { checkRequest } from "../requests/check-request.ts";
import { isUpload } from "../requests/upload.ts";
import type { EventStreams } from "../sse/event-streams.ts";
import { progressItems } from "../sse/progress-stream.ts";

interface RegistrationDeps {
  gate: Gate;
  metrics: Metrics;
  streams: EventStreams;
  clock: Clock;
}

export function registerRoutes(app: FastifyInstance, routes: readonly Route[], deps: RegistrationDeps): void {
  for (const route of routes) {
    const meter = deps.metrics.route(route.operation_id);
    if (route.uploads === undefined) register(app, route, deps, meter);
    // Inside this scope, Fastify accepts more media types than JSON and passes their bodies on as streams.
    else
      void app.register(async (scope) => {
        scope.addContentTypeParser([...route.uploads!], (_request, payload, done) => done(null, payload));
        register(scope, route, deps, meter);
      });
  }
}

function register(
  app: FastifyInstance,
  route: Route,
  { gate, streams, clock }: RegistrationDeps,
  meter: RouteMeter,
): void {
  const { auth, params, body } = route;
  const query = route.query ?? (rejectsUnknownQuery(route) ? NoQuery : undefined);
  app.route({
    method: route.method,
    url: fastifyPath(route.path),
    ...(route.body_bytes === undefined ? {} : { bodyLimit: route.body_bytes }),
    onRequest(request, reply, done) {
      try {
        checkRequestGate(gate, request, reply);
        const authenticated = auth === "public" ? undefined : authenticateRequest(gate, request, auth);
        if (authenticated instanceof Promise) return authenticated;
        return done();
      } catch (error) {
        done(error as Error);
      }
    },
    onResponse(_request, reply, done) {
      meter.count(reply.statusCode, reply.elapsedTime);
      done();
    },
    handler(request, reply) {
      const { caller, body: checked } = checkBody(request.caller ?? null, request.body);
      const context: RouteContext<unknown, unknown, unknown, never> = {
        caller: caller as never,
        params: params === undefined ? undefined : checkRequest(params, "params", request.params),
        query: query === undefined ? undefined : checkRequest(query, "query", request.query),
        body: checked,
        request,
        reply,
        if_match: route.if_match === true ? request.headers["if-match"] : undefined,
      };
      if (route.progress === true && prefersEventStream(request.headers.accept))
        return streams.stream(reply, (stop) =>
          progressItems(clock, request.id, stop, (operation) =>
            route.handler({ ...context, operation } as never),
          ),
        );
      const response = route.handler(context as never);
      if (response instanceof Promise) return response.then((ready) => send(reply, ready));
      return send(reply, response);
    },
  });

  function checkBody(caller: Caller | null, value: unknown): { caller: Caller | null; body: unknown } {
    if (body === undefined || (route.uploads !== undefined && isUpload(value)))
      return { caller, body: value };
    const stated = extractBodyScope(caller, body, value);
    const translated = route.translate === undefined ? stated.body : route.translate(stated.body);
    return {
      caller: stated.scope === null ? caller : { ...caller!, scope: stated.scope },
      body: checkRequest(body, "body", translated),
    };
  }
}

/**
 * A parameter that a route does not have is refused like an unknown field of a body: if it were ignored, a misspelled
 * filter would look like one that matched everything. Pages and sign-ins accept unknown parameters, because browsers
 * and other servers add some, and so do the model endpoints, because clients send the parameters of the vendor.
 */
function rejectsUnknownQuery({ path, error_schema }: Route): boolean {
  return path.startsWith("/v1/") && error_schema === undefined;
}

const NoQuery = z.strictObject({});

function send(reply: FastifyReply, response: RouteResponse): FastifyReply {
  if ("hijacked" in response) return reply;
  if (response.headers !== undefined) reply.headers(response.headers);
  reply.code(response.status);
  if ("empty" in response) return reply.send();
  if ("content" in response) return reply.send(Readable.from(response.content));
  if ("text" in response) return reply.header("content-type", response.type).send(response.text);
  return reply.header("content-type", "application/json; charset=utf-8").send(JSON.stringify(response.json));
}
