export { type Client, type ClientOptions, createClient, type NewKey } from "./create-client.ts";
export type { FollowOptions } from "./follow.ts";
export { readSse, type SseMessage } from "./sse.ts";
export type {
  Accepted,
  ClientEvent,
  Compaction,
  MessageBody,
  PluginInstalled,
  PluginSwitched,
  RunBody,
  RunUpdate,
  SessionUpdate,
  SessionWhere,
  WatchOptions,
} from "./agent-types.ts";
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
