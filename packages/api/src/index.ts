/** HTTP: routes, authentication, the error envelope, the OpenAPI document, the explorer. */
export { type Api, type ApiOptions, createApi } from "./create-api.ts";
export { createMetrics, type Metrics, type RouteMeter } from "./metrics.ts";
