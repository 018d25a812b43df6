/** Health, status and metrics of the gateway, and the OpenAPI document. */
import { BackplaneError } from "@backplane/contract";
import type { AdapterMount, RunnerHealth } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { buildOpenApi } from "../openapi/build-openapi.ts";
import type { RouteDeps } from "./route-deps.ts";

const StatusSchema = z.object({
  version: z.string(),
  ready: z.boolean(),
  uptime_s: z.number(),
  caller: z.object({
    actor: z.string(),
    org_id: z.string(),
    project_id: z.string().nullable(),
    role: z.string(),
    admin: z.boolean(),
  }),
  node: z.string(),
  store: z.object({
    ok: z.boolean(),
    kind: z.enum(["sqlite", "postgres"]).nullable(),
    schema_version: z.int().nullable(),
    bytes: z.number().nullable(),
    last_backup_at: z.string().nullable(),
  }),
  invocations: z.object({ running: z.int(), waiting_approval: z.int(), queued: z.int() }),
  runner: z.object({
    processes: z.int(),
    prewarmed: z.int(),
    running: z.int(),
    held_back: z.array(
      z.object({
        binding_id: z.string(),
        package_id: z.string(),
        failures: z.int(),
        retry_at: z.number(),
        last_error: z.string(),
      }),
    ),
    /** Running MCP servers and other resident processes; only for the host's admin. */
    servers: z.array(
      z.object({
        binding_id: z.string(),
        package_id: z.string(),
        pid: z.int(),
        state: z.enum(["launching", "ready", "stopping"]),
        calls: z.int(),
        idle_ms: z.number(),
        memory_bytes: z.number(),
      }),
    ),
  }),
  sandbox: z.object({ enabled: z.boolean(), available: z.boolean(), reason: z.string() }),
});

const NO_SUMMARY = { kind: null, schema_version: null, bytes: null, last_backup_at: null };

/** `table` is complete when the first request arrives. */
export function systemRoutes(deps: RouteDeps, table: readonly Route[]): Route[] {
  const { kernel, clock, metrics, version } = deps;
  const started = clock.monotonic();
  // The status must be readable even while the store does not respond.
  const storeSummary = () => deps.storeSummary().catch(() => NO_SUMMARY);
  let openapi: { mounts: readonly AdapterMount[]; document: string } | undefined;
  return [
    defineRoute({
      method: "GET",
      path: "/healthz",
      operation_id: "health",
      summary: "Check that the process is alive",
      tag: "System",
      auth: "public",
      responses: { 200: { description: "Alive.", schema: z.object({ status: z.literal("ok") }) } },
      handler: () => ({ status: 200, json: { status: "ok" } }),
    }),
    defineRoute({
      method: "GET",
      path: "/readyz",
      operation_id: "ready",
      summary: "Check that the gateway is ready",
      description:
        "Responds 503 while the store is unavailable, while the gateway has no lease, and while it is stopping. `takes_over` " +
        "is false for the duration of one lease after the store was unavailable; meanwhile the gateway does not take " +
        "over the work of other gateways.",
      tag: "System",
      auth: "public",
      responses: {
        200: {
          description: "Ready.",
          schema: z.object({ status: z.literal("ready"), takes_over: z.boolean() }),
        },
      },
      async handler() {
        const health = await kernel.health();
        if (health.stopping || deps.stopping()) throw new BackplaneError("gateway_stopping");
        if (!health.store.ok) throw new BackplaneError("store.unavailable", "The store does not respond.");
        if (!health.lease.held) {
          throw new BackplaneError(
            "store.unavailable",
            "The lease of the gateway has expired and is being renewed.",
          );
        }
        return { status: 200, json: { status: "ready", takes_over: health.lease.takes_over } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/status",
      operation_id: "status",
      summary: "Read the status of the gateway",
      tag: "System",
      auth: { any: true },
      responses: {
        200: {
          description: "Versions, caller, store, invocations, plugin processes and sandbox.",
          schema: StatusSchema,
        },
      },
      async handler({ caller }) {
        const health = await kernel.health();
        return {
          status: 200,
          json: {
            version,
            ready: health.store.ok && health.lease.held && !health.stopping,
            uptime_s: Math.round((clock.monotonic() - started) / 1000),
            caller: { actor: caller.actor, ...caller.scope, role: caller.role, admin: caller.admin },
            node: process.versions.node,
            store: { ok: health.store.ok, ...(caller.actor === "admin" ? await storeSummary() : NO_SUMMARY) },
            invocations: health.invocations,
            runner: {
              processes: health.runner.processes,
              prewarmed: health.runner.prewarmed,
              running: health.runner.running,
              // A key must not see the plugins of other tenants.
              held_back: caller.actor === "admin" ? health.runner.held_back.map(withoutPoolKey) : [],
              servers: caller.actor === "admin" ? await kernel.servers.listProcesses() : [],
            },
            sandbox: health.runner.sandbox,
          },
        };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/metrics",
      operation_id: "metrics",
      summary: "Prometheus metrics",
      tag: "System",
      // Any key is allowed, so that a scraper does not need an admin credential.
      auth: { any: true },
      responses: { 200: { description: "Prometheus text.", type: "text/plain" } },
      handler: async () => ({
        status: 200,
        text: metrics.render(await kernel.health()),
        type: "text/plain; version=0.0.4; charset=utf-8",
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/openapi.json",
      operation_id: "openapi",
      summary: "Read the OpenAPI document",
      tag: "System",
      auth: { any: true },
      responses: { 200: { description: "OpenAPI 3.1.", type: "application/json" } },
      handler() {
        // The routes of adapters change when plugins are loaded or unloaded.
        const mounts = kernel.adapters.list();
        if (openapi?.mounts !== mounts)
          openapi = { mounts, document: JSON.stringify(buildOpenApi(table, version, mounts)) };
        return { status: 200, text: openapi.document, type: "application/json; charset=utf-8" };
      },
    }),
  ];
}

/** The pool key reveals how processes are shared, so it is not part of the response. */
function withoutPoolKey(plugin: RunnerHealth["held_back"][number]) {
  const { binding_id, package_id, failures, retry_at, last_error } = plugin;
  return { binding_id, package_id, failures, retry_at, last_error };
}
