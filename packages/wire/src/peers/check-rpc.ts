/** JSON-RPC 2.0 message shapes, kept in agreement with the contract's schemas by a test. */
import type { Json, JsonObject } from "@backplane/contract";
import { isObject } from "./check-vai.ts";

export type RpcId = string | number | null;

export const RPC_CODES = {
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
  internal_error: -32603,
  /** From the range left to implementations: too many requests at once. */
  busy: -32000,
} as const;

export function isRpcId(value: unknown): value is RpcId {
  return typeof value === "string" || typeof value === "number" || value === null;
}

export function checkRpcRequest(message: JsonObject): string | undefined {
  if (message.jsonrpc !== "2.0") return "jsonrpc must be 2.0";
  if (typeof message.method !== "string") return "method must be a string";
  if (message.id !== undefined && !isRpcId(message.id)) return "id must be a string, a number or null";
  const params = message.params;
  if (params !== undefined && !isObject(params) && !Array.isArray(params)) {
    return "params must be an object or an array";
  }
  return undefined;
}

/** The shape, and that there is exactly one of result and error. */
export function checkRpcResponse(message: JsonObject): string | undefined {
  if (message.jsonrpc !== "2.0") return "jsonrpc must be 2.0";
  if (!isRpcId(message.id)) return "id must be a string, a number or null";
  if ((message.result === undefined) === (message.error === undefined)) {
    return "there must be either a result or an error";
  }
  if (message.error === undefined) return undefined;
  if (!isObject(message.error)) return "error must be an object";
  if (!Number.isSafeInteger(message.error.code)) return "error.code must be an integer";
  if (typeof message.error.message !== "string") return "error.message must be a string";
  return undefined;
}

export function isRpcResponse(message: Json): message is JsonObject {
  return isObject(message) && message.method === undefined && ("result" in message || "error" in message);
}
