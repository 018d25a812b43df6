/**
 * Kernel plugins, independent of the web adapter, so that a disabled web adapter can be enabled again. All other operations
 * on plugins are routes of the web adapter, under /api/plugins.
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
      summary: "List kernel plugins with their status",
      tag: "Plugins",
      auth: { scope: "plugins:read" },
      responses: {
        200: { description: "All plugins.", schema: z.object({ items: z.array(PluginSchema) }) },
      },
      handler: async ({ caller }) => ({ status: 200, json: { items: await kernel.plugins.list(caller) } }),
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/plugins/{name}",
      operation_id: "patchPlugin",
      summary: "Enable or disable a kernel plugin",
      description:
        "Takes effect immediately. Also enables a web adapter that was disabled together with its routes.",
      tag: "Plugins",
      auth: { scope: "plugins:write" },
      params: NameParams,
      body: PatchBody,
      responses: { 200: { description: "The plugin.", schema: PluginSchema } },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.plugins.setEnabled(caller, params.name, body.enabled),
      }),
    }),
  ];
}
