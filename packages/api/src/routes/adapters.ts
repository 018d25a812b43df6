/**
 * Adapters' routes (plug.web-adapter): `/api/*` and `/x/*` are whatever loaded plugins mount there now. The gates are
 * those of every other route and come before the body is read; the plugin gets values and gives values back.
 */
import { BackplaneError, type Json } from "@backplane/contract";
import type { AdapterMount, Adapters, Caller } from "@backplane/kernel";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { authorize } from "../auth/authorize.ts";
import type { Metrics, RouteMeter } from "../metrics.ts";
import { enter, type Gate } from "../register-routes.ts";

const ADAPTER_PREFIXES = ["/api/*", "/x/*"] as const;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

export interface AdapterRouteDeps {
  adapters: Adapters;
  gate: Gate;
  metrics: Metrics;
  /** Counts what no adapter has mounted. */
  unknown: RouteMeter;
}

type Found = NonNullable<ReturnType<Adapters["find"]>>;

export function mountAdapters(app: FastifyInstance, deps: AdapterRouteDeps): void {
  const { adapters, gate } = deps;
  const found = new WeakMap<FastifyRequest, Found>();
  const meters = new Map<string, RouteMeter>();

  const meterOf = (mount: AdapterMount): RouteMeter => {
    const name = operationOf(mount);
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
          enter(request, reply, gate);
          const match = find(request, reply);
          found.set(request, match);
          const caller = gate.authenticator.authenticate(request.raw.headers, request.method !== "GET");
          if (caller instanceof Promise) return caller.then((known) => admit(request, known, match.mount));
          admit(request, caller, match.mount);
          return done();
        } catch (error) {
          done(error as Error);
        }
      },
      onResponse(request, reply, done) {
        const match = found.get(request);
        const meter = match === undefined ? deps.unknown : meterOf(match.mount);
        meter.count(reply.statusCode, reply.elapsedTime);
        done();
      },
      handler: (request, reply) => answer(request, reply, found.get(request)!),
    });

  function find(request: FastifyRequest, reply: FastifyReply): Found {
    const path = request.url.split("?", 1)[0]!;
    const match = adapters.find(request.method, path);
    if (match !== null) return match;
    const allow = METHODS.filter((method) => adapters.find(method, path) !== null);
    if (allow.length === 0) throw new BackplaneError("route.not_found");
    reply.header("allow", allow.join(", "));
    const message = `This path takes ${allow.join(", ")}, not ${request.method}.`;
    throw new BackplaneError("route.not_found", message, { details: { allow } });
  }

  async function answer(request: FastifyRequest, reply: FastifyReply, { mount, params }: Found) {
    const given = await adapters.handle(request.caller!, mount, {
      params,
      query: queryOf(request.query as Record<string, string | string[]>),
      body: (request.body ?? null) as Json,
    });
    if (given.headers !== undefined) reply.headers(given.headers);
    reply.code(given.status).header("x-content-type-options", "nosniff");
    if (given.body === undefined) return reply.send();
    // Always JSON, whatever the plugin says: a page of its own would run on the console's origin.
    return reply.header("content-type", "application/json; charset=utf-8").send(JSON.stringify(given.body));
  }
}

function admit(request: FastifyRequest, caller: Caller, { scope }: AdapterMount): void {
  authorize(caller, { scope });
  request.caller = caller;
}

/** One value for a name: a plugin that expects a text must not be handed a list. */
function queryOf(query: Record<string, string | string[]>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [name, Array.isArray(value) ? value.at(-1)! : value]),
  );
}

/** What the document and the metrics call a mounted route: `web_get_api_config_by_key`. */
export function operationOf({ plugin, method, mounted }: AdapterMount): string {
  const words = mounted
    .slice(1)
    .replaceAll(/\{(\w+)\}/g, "by_$1")
    .replaceAll(/[^A-Za-z0-9]+/g, "_");
  return `${plugin.replaceAll("-", "_")}_${method.toLowerCase()}_${words}`;
}
