/** Instrument plugins at run time (instr.admin): the admin's, like the three tools of the same meaning. */
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
  probe: z.enum(["0", "1"]).default("0").describe("1 starts plugins that do not run, to ask them too."),
  timeout_ms: z.coerce.number().int().min(1).max(60_000).default(3_000).describe("for each healthCheck"),
});
const ListSchema = z.object({ items: z.array(InstrumentPluginSchema) });

export function instrumentRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/instrument-plugins",
      operation_id: "listInstrumentPlugins",
      summary: "List instrument plugins",
      description:
        "Every one that is bound in the caller's scope, whether it runs, and its instruments. Admins only.",
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
      summary: "Ask every instrument for its health",
      description:
        "Each instrument's own healthCheck, within its time; a plugin that cannot run says why. One that does not run " +
        "now is Unknown, with when it was last seen, unless `probe` is 1. Admins only.",
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
        "From a folder, zip or jar of the gateway's machine: installed, bound as a whole, and asked what it offers. " +
        "One that does not load is answered too, with its error. Only the host's own admin.",
      tag: "Plugins",
      auth: { scope: "admin" },
      body: InstrumentInstallSchema,
      responses: { 201: { description: "What came of it.", schema: InstrumentPluginSchema } },
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
        "Takes its binding and with it its instruments away; the package and the plugin's data stay.",
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
