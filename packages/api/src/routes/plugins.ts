/**
 * Kernel plugins without the web adapter: who switched that one off can switch it on again here. Everything else
 * about plugins is the adapter's, under /api/plugins.
 */
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { RouteDeps } from "./route-deps.ts";

const NameParams = z.object({ name: z.string().min(1).max(64) });
const PatchBody = z.strictObject({ enabled: z.boolean() });
const PluginSchema = z.looseObject({
  name: z.string(),
  version: z.string(),
  category: z.string(),
  status: z.string(),
  enabled: z.boolean(),
});

export function pluginRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/plugins",
      operation_id: "listPlugins",
      summary: "Kernel plugins and how they are",
      tag: "Plugins",
      auth: { scope: "plugins:read" },
      responses: {
        200: { description: "Every plugin.", schema: z.object({ items: z.array(PluginSchema) }) },
      },
      handler: async ({ caller }) => ({ status: 200, json: { items: await kernel.plugins.list(caller) } }),
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/plugins/{name}",
      operation_id: "patchPlugin",
      summary: "Switch a kernel plugin on or off, at once",
      description: "The way back for the web adapter, whose own routes go with it.",
      tag: "Plugins",
      auth: { scope: "plugins:write" },
      params: NameParams,
      body: PatchBody,
      responses: { 200: { description: "The plugin as it is now.", schema: PluginSchema } },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.plugins.setEnabled(caller, params.name, body.enabled),
      }),
    }),
  ];
}
