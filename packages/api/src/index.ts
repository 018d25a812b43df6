/** HTTP: routes, authentication, the error envelope, the OpenAPI document, the explorer. */

export { createMetrics, type Metrics, type RouteMeter } from "./http/metrics.ts";
export { type Api, type ApiOptions, createApi } from "./server/create-api.ts";
