import type { JsonObject } from "@backplane/sdk/kernel";
import { jsonResponse, pick, type ServedRoute } from "./route.ts";

export const PLUGIN_ROUTES: readonly ServedRoute[] = [
  {
    method: "GET",
    path: "/api/plugins",
    summary: "List kernel plugins with their status",
    scope: "plugins:read",
    responses: { 200: "Every plugin." },
    handle: async ({ service }) => jsonResponse({ plugins: await service("plugins.list") }),
  },
  {
    method: "GET",
    path: "/api/plugins/health",
    summary: "Run the health checks of all plugins",
    scope: "plugins:read",
    responses: { 200: "One report for each plugin." },
    handle: async ({ query, service }) => {
      const timeout_ms = /^\d{1,6}$/.test(query.timeout_ms ?? "") ? Number(query.timeout_ms) : 3_000;
      return jsonResponse({ plugins: await service("plugins.health", { timeout_ms }) });
    },
  },
  {
    method: "PATCH",
    path: "/api/plugins/{name}",
    summary: "Enable or disable a plugin immediately, or trust it to run inline",
    scope: "plugins:write",
    body: {
      type: "object",
      properties: { enabled: { type: "boolean" }, trusted: { type: "boolean" } },
      additionalProperties: false,
      minProperties: 1,
    },
    responses: { 200: "The change is applied.", 404: "There is no such plugin." },
    async handle({ params, body, service }) {
      const name = params.name!;
      let row: JsonObject = {};
      if (body.trusted !== undefined) {
        row = await service<JsonObject>("plugins.trust", { name, ...pick(body, "trusted") });
      }
      if (body.enabled !== undefined) {
        row = await service<JsonObject>("plugins.enable", { name, ...pick(body, "enabled") });
      }
      return jsonResponse({
        name,
        enabled: row.enabled!,
        trusted: row.trusted!,
        status: row.status!,
        reload_required: false,
      });
    },
  },
  {
    method: "POST",
    path: "/api/plugins/inspect",
    summary: "Show what installing a source would add, without changing or running anything",
    scope: "plugins:write",
    body: { type: "object", properties: { source: { type: "string" } }, required: ["source"] },
    responses: { 200: "The plugins of the source.", 400: "The source is not allowed." },
    handle: async ({ body, service }) =>
      jsonResponse({ plugins: await service("plugins.inspect", pick(body, "source")) }),
  },
  {
    method: "POST",
    path: "/api/plugins/install",
    summary: "Install from the npm registry or a local folder; runs no scripts",
    scope: "plugins:write",
    body: {
      type: "object",
      properties: { source: { type: "string" }, editable: { type: "boolean" } },
      required: ["source"],
      additionalProperties: false,
    },
    responses: { 200: "Installed and loaded.", 400: "The source is not allowed.", 500: "npm failed." },
    async handle({ body, service }) {
      const plugins = await service("plugins.install", pick(body, "source", "editable"));
      return jsonResponse({ source: body.source!, ok: true, plugins });
    },
  },
  {
    method: "POST",
    path: "/api/plugins/{name}/reload",
    summary: "Reload a plugin",
    scope: "plugins:write",
    responses: { 200: "The plugin after the reload." },
    handle: async ({ params, service }) =>
      jsonResponse(await service("plugins.reload", { name: params.name! })),
  },
  {
    method: "DELETE",
    path: "/api/plugins/{name}",
    summary: "Remove an installed plugin",
    scope: "plugins:write",
    responses: {
      200: "The plugin was removed.",
      400: "Bundled plugins cannot be removed.",
      404: "There is no such plugin.",
    },
    async handle({ params, service }) {
      await service("plugins.remove", { name: params.name! });
      return jsonResponse({ name: params.name!, removed: true });
    },
  },
];
