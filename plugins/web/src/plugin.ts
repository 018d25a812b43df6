/**
 * The web surface (plug.web-adapter): routes for configuration, plugins, providers and sessions under `/api`, as an
 * ordinary adapter. Every action runs in a kernel service on behalf of the caller, with the caller's rights.
 */
import { type AdapterRequest, type AdapterResponse, defineKernelPlugin } from "@backplane/sdk/kernel";
import { CONFIG_ROUTES } from "./config-routes.ts";
import { PLUGIN_ROUTES } from "./plugin-routes.ts";
import { PROVIDER_ROUTES } from "./provider-routes.ts";
import { type ServedRoute, serveRoutes } from "./route.ts";
import { SESSION_ROUTES } from "./session-routes.ts";

const ROUTES: readonly ServedRoute[] = [
  ...CONFIG_ROUTES,
  ...PLUGIN_ROUTES,
  ...PROVIDER_ROUTES,
  ...SESSION_ROUTES,
];
const serve = serveRoutes(ROUTES);

export const plugin = defineKernelPlugin({
  name: "web",
  version: "0.1.0",
  category: "adapter",
  adapterId: "web",
  routes: ROUTES.map(({ handle: _handle, ...route }) => route),
  subscriptions: () => [],
  onRequest: (request: AdapterRequest, ctx): Promise<AdapterResponse> => serve(request, ctx),
  healthCheck: () => ({ status: "ok", summary: `${ROUTES.length} routes under /api` }),
});
