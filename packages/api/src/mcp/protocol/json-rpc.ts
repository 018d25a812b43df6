/** JSON-RPC 2.0 as MCP restricts it: ids are strings or numbers, and params are objects. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export type RpcId = string | number;

export const RPC = {
  parse: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
  internal: -32603,
  /** Not of MCP: the gateway refuses the request. */
  refused: -32000,
  session_not_found: -32001,
  /** In revisions before 2026-07-28. */
  resource_not_found: -32002,
  header_mismatch: -32020,
  missing_capability: -32021,
  unsupported_version: -32022,
  /** A person must visit a page first. */
  url_elicitation_required: -32042,
} as const;

export interface RpcRequest {
  kind: "request";
  id: RpcId;
  method: string;
  params: JsonObject;
}

export interface RpcNotification {
  kind: "notification";
  method: string;
  params: JsonObject;
}

/** The response of a client to a request of the gateway. */
export interface RpcAnswer {
  kind: "answer";
  id: RpcId | null;
  /** Null for an error. */
  result: JsonObject | null;
  error: string;
}

export type RpcMessage = RpcRequest | RpcNotification | RpcAnswer;

/** Ends a request with a JSON-RPC error. Recognized by its numeric code. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: Json | undefined;

  constructor(code: number, message: string, data?: Json) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Null: not a JSON-RPC message of MCP. */
export function readMessage(value: unknown): RpcMessage | null {
  if (!isObject(value) || value.jsonrpc !== "2.0") return null;
  const { method, id, params } = value;
  if (method === undefined) return isAnswer(value) ? readAnswer(value) : null;
  if (typeof method !== "string") return null;
  if (params !== undefined && !isObject(params)) return null;
  if (id === undefined) return { kind: "notification", method, params: params ?? {} };
  return isId(id) ? { kind: "request", id, method, params: params ?? {} } : null;
}

export function resultMessage(id: RpcId, result: JsonObject): JsonObject {
  return { jsonrpc: "2.0", id, result };
}

export function errorMessage(id: RpcId | null, { code, message, data }: RpcError): JsonObject {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

export function requestMessage(id: RpcId, method: string, params: JsonObject): JsonObject {
  return { jsonrpc: "2.0", id, method, params };
}

export function notification(method: string, params?: JsonObject): JsonObject {
  return { jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) };
}

export function isRpcError(error: unknown): error is RpcError {
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "number";
}

export function isId(value: unknown): value is RpcId {
  return typeof value === "string" || typeof value === "number";
}

function readAnswer({ id, result, error }: JsonObject): RpcAnswer {
  const message =
    isObject(error) && typeof error.message === "string" ? error.message : "the client returned an error";
  return {
    kind: "answer",
    id: isId(id) ? id : null,
    result: isObject(result) ? result : null,
    error: message,
  };
}

function isAnswer({ id, result, error }: JsonObject): boolean {
  return (
    (isId(id) || (id === null && error !== undefined)) && (result !== undefined) !== (error !== undefined)
  );
}
