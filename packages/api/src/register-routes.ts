/**
 * Puts the table into Fastify. Order for every request: host and origin, credential, scope, body, schemas,
 * handler. Everything per route is closed over here once, so a request pays for no look-up.
 */
import { Readable } from "node:stream";
import { BackplaneError } from "@backplane/contract";
import type { Caller } from "@backplane/kernel";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Authenticator } from "./auth/authenticate.ts";
import { authorize } from "./auth/authorize.ts";
import type { HostCheck } from "./auth/hosts.ts";
import { checkRequest } from "./check-request.ts";
import type { Metrics, RouteMeter } from "./metrics.ts";
import { type Answer, type Context, fastifyPath, type Route } from "./route.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the gate; null on public routes. */
    caller: Caller | null;
  }
}

export interface Gate {
  hosts: HostCheck;
  authenticator: Authenticator;
  stopping(): boolean;
  started(): boolean;
}

export function registerRoutes(
  app: FastifyInstance,
  routes: readonly Route[],
  gate: Gate,
  metrics: Metrics,
): void {
  for (const route of routes) {
    const meter = metrics.route(route.operation_id);
    if (route.uploads === undefined) register(app, route, gate, meter);
    // Only inside this scope is anything but JSON a body, and there it stays a stream.
    else
      void app.register(async (scope) => {
        scope.addContentTypeParser([...route.uploads!], (_request, payload, done) => done(null, payload));
        register(scope, route, gate, meter);
      });
  }
}

function register(app: FastifyInstance, route: Route, gate: Gate, meter: RouteMeter): void {
  const mutating = route.method !== "GET";
  const { auth, params, query, body } = route;
  app.route({
    method: route.method,
    url: fastifyPath(route.path),
    onRequest(request, reply, done) {
      try {
        enter(request, reply, gate);
        if (auth === "public") return done();
        const caller = gate.authenticator.authenticate(request.raw.headers, mutating);
        // A hook may answer by a promise instead of its callback; the admin's path then needs neither.
        if (caller instanceof Promise) return caller.then((known) => admit(request, known, auth));
        admit(request, caller, auth);
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
      const context: Context<unknown, unknown, unknown, never> = {
        caller: request.caller as never,
        params: params === undefined ? undefined : checkRequest(params, "params", request.params),
        query: query === undefined ? undefined : checkRequest(query, "query", request.query),
        body: checkBody(body, request.body),
        request,
        reply,
      };
      const answer = route.handler(context as never);
      if (answer instanceof Promise) return answer.then((ready) => send(reply, ready));
      return send(reply, answer);
    },
  });

  function checkBody(schema: typeof body, value: unknown): unknown {
    if (schema === undefined || (route.uploads !== undefined && isStream(value))) return value;
    return checkRequest(schema, "body", value);
  }
}

function admit(request: FastifyRequest, caller: Caller, auth: Exclude<Route["auth"], "public">): void {
  authorize(caller, auth);
  request.caller = caller;
}

/** Before anything else, for routes and for what is no route alike. */
export function enter(request: FastifyRequest, reply: FastifyReply, gate: Gate): void {
  reply.header("x-request-id", request.id);
  gate.hosts.check(request.raw);
  if (!gate.started()) throw new BackplaneError("gateway_starting");
  if (gate.stopping()) {
    reply.header("connection", "close");
    throw new BackplaneError("gateway_stopping");
  }
}

export function isStream(value: unknown): value is Readable {
  return value instanceof Readable;
}

function send(reply: FastifyReply, answer: Answer): FastifyReply {
  if ("hijacked" in answer) return reply;
  if (answer.headers !== undefined) reply.headers(answer.headers);
  reply.code(answer.status);
  if ("empty" in answer) return reply.send();
  if ("content" in answer) return reply.send(Readable.from(answer.content));
  if ("text" in answer) return reply.header("content-type", answer.type).send(answer.text);
  return reply.header("content-type", "application/json; charset=utf-8").send(JSON.stringify(answer.json));
}
