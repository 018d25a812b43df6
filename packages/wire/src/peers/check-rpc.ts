/** Shape checks for JSON-RPC 2.0 messages. A test keeps them in agreement with the contract's schemas. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export type RpcId = string | number | null;

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

/** Checks the shape, and that exactly one of result and error is present. */
export function checkRpcResponse(message: JsonObject): string | undefined {
  if (message.jsonrpc !== "2.0") return "jsonrpc must be 2.0";
  if (message.method !== undefined) return "a reply must not have a method";
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

/**
 * Whether a message is a reply, valid or not. Without a method, it is a reply if it has a result, an error or the id of
 * a pending call. With a method, it is an invalid reply if it has the id of a pending call and a result or an error.
 */
export function isRpcReply(message: Json, isPending: (id: number) => boolean): message is JsonObject {
  if (!isObject(message)) return false;
  const { error, id, method, result } = message;
  const numeric_id = typeof id === "number" ? id : idFromText(id);
  const matches_pending = numeric_id !== undefined && isPending(numeric_id);
  if (method === undefined) return matches_pending || result !== undefined || error !== undefined;
  return matches_pending && ((result ?? null) !== null || (error ?? null) !== null);
}

/** The numeric id in a string: some programs return `"7"` for 7. */
export function idFromText(id: unknown): number | undefined {
  return typeof id === "string" && /^[1-9]\d{0,14}$/.test(id) ? Number(id) : undefined;
}

/** Formats an id for error messages. */
export function formatRpcId(id: unknown): string {
  return id === undefined ? "missing" : (JSON.stringify(id) ?? "unknown").slice(0, 40);
}
