/** Administration of instrument plugins (instr.admin): the operations of the three admin tools, and health checks. */
import {
  InstrumentHealthReportSchema,
  InstrumentInstallSchema,
  InstrumentPluginSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { IdParams } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const HealthSchema = z.object({ items: z.array(InstrumentHealthReportSchema) });
const HealthQuery = z.strictObject({
  probe: z
    .enum(["0", "1"])
    .default("0")
    .describe("1 starts plugins that are not running, to check them too."),
  timeout_ms: z.coerce
    .number()
    .int()
    .min(1)
    .max(60_000)
    .default(3_000)
    .describe("Timeout of each healthCheck."),
});
const ListSchema = z.object({ items: z.array(InstrumentPluginSchema) });

export function instrumentRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/instrument-plugins",
      operation_id: "listInstrumentPlugins",
      summary: "List instrument plugins",
      description: "The plugins bound in the caller's scope, with their state and instruments. Admins only.",
      tag: "Plugins",
      auth: { scope: "admin" },
      responses: { 200: { description: "All of them.", schema: ListSchema } },
      handler: async ({ caller }) => ({
        status: 200,
        json: { items: await kernel.instruments.list(caller) },
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/instrument-plugins/health",
      operation_id: "checkInstrumentPlugins",
      summary: "Check the health of all instruments",
      description:
        "Calls the healthCheck of each instrument. For a plugin that cannot run, the report states the reason. A plugin " +
        "that is not running is Unknown, with the time it was last seen, unless `probe` is 1. Admins only.",
      tag: "Plugins",
      auth: { scope: "admin" },
      query: HealthQuery,
      responses: { 200: { description: "One report for each instrument.", schema: HealthSchema } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: {
          items: await kernel.instruments.health(caller, {
            timeout_ms: query.timeout_ms,
            probe: query.probe === "1",
          }),
        },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/instrument-plugins",
      operation_id: "installInstrumentPlugin",
      summary: "Install and load an instrument plugin",
      description:
        "From a folder, zip or jar on the host. The plugin is installed, bound as a whole, and loaded. A plugin that fails " +
        "to load is returned too, with its error. Admin token only.",
      tag: "Plugins",
      auth: { scope: "admin" },
      body: InstrumentInstallSchema,
      responses: { 201: { description: "The plugin, or its error.", schema: InstrumentPluginSchema } },
      async handler({ caller, body: { path, ...options } }) {
        return { status: 201, json: await kernel.instruments.install(caller, path, options) };
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/instrument-plugins/{id}",
      operation_id: "unloadInstrumentPlugin",
      summary: "Unload an instrument plugin",
      description:
        "Disables its binding and removes its instruments. The settings, package and data of the plugin are kept.",
      tag: "Plugins",
      auth: { scope: "admin" },
      params: IdParams,
      responses: { 204: { description: "Unloaded." } },
      async handler({ caller, params }) {
        await kernel.instruments.unload(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];
}
