/** JSON-RPC 2.0 as MCP restricts it: ids are strings or numbers, and params are objects. */
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export type McpRequestId = string | number;

export interface McpClientRequest {
  kind: "request";
  id: McpRequestId;
  method: string;
  params: JsonObject;
}

export interface McpClientNotification {
  kind: "notification";
  method: string;
  params: JsonObject;
}

/** The response of a client to a request from the gateway. */
export interface McpClientResponse {
  kind: "response";
  id: McpRequestId | null;
  /** Null for an error. */
  result: JsonObject | null;
  error: string;
}

export type McpClientMessage = McpClientRequest | McpClientNotification | McpClientResponse;

/** Ends a request with a JSON-RPC error. Recognized by its numeric code. */
export class McpError extends Error {
  readonly code: number;
  readonly data: Json | undefined;

  constructor(code: number, message: string, data?: Json) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Null if the value is not a JSON-RPC message of MCP. */
export function readMessage(value: unknown): McpClientMessage | null {
  if (!isObject(value) || value.jsonrpc !== "2.0") return null;
  const { method, id, params } = value;
  if (method === undefined) return isResponse(value) ? readResponse(value) : null;
  if (typeof method !== "string") return null;
  if (params !== undefined && !isObject(params)) return null;
  if (id === undefined) return { kind: "notification", method, params: params ?? {} };
  return isMcpRequestId(id) ? { kind: "request", id, method, params: params ?? {} } : null;
}

export function resultMessage(id: McpRequestId, result: JsonObject): JsonObject {
  return { jsonrpc: "2.0", id, result };
}

export function errorMessage(id: McpRequestId | null, { code, message, data }: McpError): JsonObject {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

export function requestMessage(id: McpRequestId, method: string, params: JsonObject): JsonObject {
  return { jsonrpc: "2.0", id, method, params };
}

export function notification(method: string, params?: JsonObject): JsonObject {
  return { jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) };
}

export function isMcpError(error: unknown): error is McpError {
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "number";
}

export function isMcpRequestId(value: unknown): value is McpRequestId {
  return typeof value === "string" || typeof value === "number";
}

function readResponse({ id, result, error }: JsonObject): McpClientResponse {
  const message =
    isObject(error) && typeof error.message === "string" ? error.message : "the client returned an error";
  return {
    kind: "response",
    id: isMcpRequestId(id) ? id : null,
    result: isObject(result) ? result : null,
    error: message,
  };
}

function isResponse({ id, result, error }: JsonObject): boolean {
  return (
    (isMcpRequestId(id) || (id === null && error !== undefined)) &&
    (result !== undefined) !== (error !== undefined)
  );
}
