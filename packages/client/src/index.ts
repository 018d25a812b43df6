export { type Client, type ClientOptions, createClient, type NewKey } from "./operations/create-client.ts";
export type {
  ClientEvent,
  CompactionBody,
  CreatedKey,
  GatewayStatus,
  HarnessBody,
  InvocationUpdate,
  InvokeOptions,
  InvokeRequest,
  ListOf,
  MessageBody,
  MessageReceipt,
  PageOptions,
  PluginExample,
  PluginSwitchResult,
  RunBody,
  RunUpdate,
  SessionUpdate,
  WatchOptions,
  WorkspaceOption,
} from "./operations/types.ts";
export type { FollowOptions } from "./transport/follow.ts";
export type { RequestObserver } from "./transport/http.ts";
export type { CallOptions } from "./transport/requests.ts";
export { readSse, type SseMessage } from "./transport/sse.ts";
