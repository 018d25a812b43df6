/** The plugin's way to its gateway: typed calls, and errors that arrive as what they were there. */
import {
  type Json,
  type JsonObject,
  type ModuleContextMethods,
  THROWN_ERROR,
  type ThrownValue,
  valueToThrown,
} from "@backplane/contract";
import type { RpcPeer } from "@backplane/wire";

type Methods = ModuleContextMethods;

export interface GatewayLink {
  ask<M extends keyof Methods>(method: M, params: Methods[M][0]): Promise<Methods[M][1]>;
  /** Lost when the gateway does not read: only for what nobody waits for. */
  tell<M extends "log" | "progress">(method: M, params: Methods[M][0]): void;
}

export function gatewayLink(peer: () => RpcPeer): GatewayLink {
  return {
    async ask(method, params) {
      try {
        return (await peer().call(method, params as unknown as JsonObject)) as Json as never;
      } catch (error) {
        const { data, rpcCode } = error as { rpcCode?: number; data?: unknown };
        throw rpcCode === THROWN_ERROR ? valueToThrown(data as ThrownValue) : error;
      }
    },
    tell(method, params) {
      try {
        peer().notify(method, params as unknown as JsonObject);
      } catch {
        // Backpressure, or a value that is no JSON: the line is lost, the plugin goes on.
      }
    },
  };
}
