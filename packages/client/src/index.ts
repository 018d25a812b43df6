export { type Client, type ClientOptions, createClient, type NewKey } from "./create-client.ts";
export type { FollowOptions } from "./follow.ts";
export type {
  CallOptions,
  CreatedKey,
  DiscoveredExport,
  GatewayStatus,
  InvocationUpdate,
  InvokeOptions,
  InvokeRequest,
  ListOf,
  PageOptions,
  ValidationReport,
} from "./types.ts";
