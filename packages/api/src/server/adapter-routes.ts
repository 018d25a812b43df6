/**
 * Routes of adapters (plug.web-adapter): `/api/*` and `/x/*` serve the routes that the loaded plugins have mounted
 * there. A request passes the same gate as for every other route before its body is read. Plugins receive and return
 * plain values.
 */
import { BackplaneError, type Json } from "@backplane/contract";
import type { AdapterMount, Adapters } from "@backplane/ports";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { authenticateRequest, checkRequestGate, type Gate } from "../auth/gate.ts";
import type { Metrics, RouteMeter } from "../http/metrics.ts";
import { operationIdOf } from "../openapi/build-openapi.ts";

const ADAPTER_PREFIXES = ["/api/*", "/x/*"] as const;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

export interface AdapterRouteDeps {
  adapters: Adapters;
  gate: Gate;
  metrics: Metrics;
  /** Counts requests to paths that no adapter has mounted. */
  unknown: RouteMeter;
}

type AdapterMatch = NonNullable<ReturnType<Adapters["find"]>>;

export function registerAdapterRoutes(app: FastifyInstance, deps: AdapterRouteDeps): void {
  const { adapters, gate } = deps;
  const matches = new WeakMap<FastifyRequest, AdapterMatch>();
  const meters = new Map<string, RouteMeter>();

  const getMeter = (mount: AdapterMount): RouteMeter => {
    const name = operationIdOf(mount);
    const meter = meters.get(name) ?? deps.metrics.route(name);
    meters.set(name, meter);
    return meter;
  };

  for (const url of ADAPTER_PREFIXES)
    app.route({
      method: [...METHODS],
      url,
      onRequest(request, reply, done) {
        try {
          checkRequestGate(gate, request, reply);
          const match = find(request, reply);
          matches.set(request, match);
          const authenticated = authenticateRequest(gate, request, { scope: match.mount.scope });
          if (authenticated instanceof Promise) return authenticated;
          return done();
        } catch (error) {
          done(error as Error);
        }
      },
      onResponse(request, reply, done) {
        const match = matches.get(request);
        const meter = match === undefined ? deps.unknown : getMeter(match.mount);
        meter.count(reply.statusCode, reply.elapsedTime);
        done();
      },
      handler: (request, reply) => respond(request, reply, matches.get(request)!),
    });

  function find(request: FastifyRequest, reply: FastifyReply): AdapterMatch {
    const path = request.url.split("?", 1)[0]!;
    const match = adapters.find(request.method, path);
    if (match !== null) return match;
    const allow = METHODS.filter((method) => adapters.find(method, path) !== null);
    if (allow.length === 0) throw new BackplaneError("route.not_found");
    reply.header("allow", allow.join(", "));
    const message = `This path allows ${allow.join(", ")}, not ${request.method}.`;
    throw new BackplaneError("route.not_found", message, { details: { allow } });
  }

  async function respond(request: FastifyRequest, reply: FastifyReply, { mount, params }: AdapterMatch) {
    const response = await adapters.handle(request.caller!, mount, {
      params,
      query: queryOf(request.query as Record<string, string | string[]>),
      body: (request.body ?? null) as Json,
    });
    if (response.headers !== undefined) reply.headers(response.headers);
    reply.code(response.status).header("x-content-type-options", "nosniff");
    if (response.body === undefined) return reply.send();
    // Always JSON, whatever type the plugin declares: HTML from a plugin would run in the origin of the console.
    return reply
      .header("content-type", "application/json; charset=utf-8")
      .send(JSON.stringify(response.body));
  }
}

/** One value for each name: a plugin that expects a string must not receive an array. */
function queryOf(query: Record<string, string | string[]>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [name, Array.isArray(value) ? value.at(-1)! : value]),
  );
}
