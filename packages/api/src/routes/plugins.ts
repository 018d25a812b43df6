/**
 * Routes for kernel plugins. They do not depend on the web adapter, so they can enable it again after it was disabled,
 * and they stream the progress of an installation, which routes of adapters cannot do. All other operations on plugins
 * are routes of the web adapter, under /api/plugins.
 */
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { RouteDeps } from "./route-deps.ts";

const NameParams = z.object({ name: z.string().min(1).max(64) });
const SourceBody = z.strictObject({
  source: z
    .string()
    .min(1)
    .max(4096)
    .describe("The name of an npm package, or the path of a folder or archive."),
});
const InstallBody = SourceBody.extend({
  editable: z.boolean().default(false).describe("Link a local folder instead of copying it."),
});
const PatchBody = z.strictObject({ enabled: z.boolean() });
const PluginSchema = z.looseObject({
  name: z.string(),
  version: z.string(),
  category: z.string(),
  status: z.string(),
  enabled: z.boolean(),
});

const EntrySchema = z.looseObject({
  name: z.string(),
  version: z.string(),
  category: z.string(),
  source: z.string(),
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
      method: "POST",
      path: "/v1/plugins:inspect",
      operation_id: "inspectKernelPlugin",
      summary: "Show which kernel plugins a source contains",
      description: "Nothing is installed and no code of the source runs.",
      tag: "Plugins",
      auth: { scope: "plugins:write" },
      body: SourceBody,
      progress: true,
      responses: {
        200: { description: "The plugins of the source.", schema: z.object({ items: z.array(EntrySchema) }) },
      },
      handler: async ({ caller, body, operation }) => ({
        status: 200,
        json: { items: await kernel.plugins.inspect(caller, body.source, operation) },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugins:install",
      operation_id: "installKernelPlugin",
      summary: "Install and load kernel plugins",
      description:
        "From the npm registry, or from a folder or archive on the host. No scripts run. All plugins of the source are " +
        "installed or none; a plugin that fails to load stays installed.",
      tag: "Plugins",
      auth: { scope: "plugins:write" },
      body: InstallBody,
      progress: true,
      responses: {
        200: {
          description: "The plugins of the source.",
          schema: z.object({ items: z.array(PluginSchema) }),
        },
      },
      handler: async ({ caller, body: { source, editable }, operation }) => ({
        status: 200,
        json: { items: await kernel.plugins.install(caller, source, { editable }, operation) },
      }),
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/plugins/{name}",
      operation_id: "patchPlugin",
      summary: "Enable or disable a kernel plugin",
      description:
        "Takes effect immediately. This route also works for a disabled web adapter, whose own routes are unavailable.",
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
