export { type Client, type ClientOptions, createClient, type NewKey } from "./create-client.ts";
export type { FollowOptions } from "./follow.ts";
export type {
  CallOptions,
  CreatedKey,
  GatewayStatus,
  InvocationUpdate,
  InvokeOptions,
  InvokeRequest,
  ListOf,
  PageOptions,
} from "./types.ts";
