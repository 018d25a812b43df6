/** The HTTP server of the gateway: routes, event streams, WebSockets, MCP, the model endpoints and the pages. */

export { createMetrics, type Metrics, type RouteMeter } from "./http/metrics.ts";
export { type Api, type ApiOptions, createApi } from "./server/create-api.ts";
