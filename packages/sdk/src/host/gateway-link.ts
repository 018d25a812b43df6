/** The plugin's connection to its gateway: typed calls, and errors that keep their type across the pipe. */
import {
  deserializeError,
  type Json,
  type JsonObject,
  type ModuleContextMethods,
  type SerializedError,
  THROWN_ERROR,
} from "@backplane/contract";
import type { RpcPeer } from "@backplane/wire";

type Methods = ModuleContextMethods;

export interface GatewayLink {
  request<M extends keyof Methods>(method: M, params: Methods[M][0]): Promise<Methods[M][1]>;
  /** Drops the message if the gateway does not read its input, so use this only for messages that may be lost. */
  notify<M extends "log" | "progress">(method: M, params: Methods[M][0]): void;
}

export function createGatewayLink(peer: () => RpcPeer): GatewayLink {
  return {
    async request(method, params) {
      try {
        return (await peer().call(method, params as unknown as JsonObject)) as Json as never;
      } catch (error) {
        const { data, rpcCode } = error as { rpcCode?: number; data?: unknown };
        throw rpcCode === THROWN_ERROR ? deserializeError(data as SerializedError) : error;
      }
    },
    notify(method, params) {
      try {
        peer().notify(method, params as unknown as JsonObject);
      } catch {
        // On backpressure, or for a value that is not JSON, the message is dropped and the plugin continues.
      }
    },
  };
}
