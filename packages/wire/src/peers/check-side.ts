/**
 * Shape checks for `rterm.plugin.v1` lines (side.handshake, side.wire). A test keeps them in agreement with the
 * schemas.
 */
import { isObject, type JsonObject } from "@backplane/contract";
import { isNonEmpty } from "./check-vai.ts";

export const SIDE_PROTOCOL = "rterm.plugin.v1";

export function checkSideHandshake(line: JsonObject): string | undefined {
  if (line.type !== undefined && line.type !== "handshake" && line.type !== "handshake_response") {
    return "type must be handshake or handshake_response, if it is present";
  }
  const manifest = line.manifest;
  if (!isObject(manifest)) return "manifest must be an object";
  if (!isNonEmpty(manifest.plugin_id)) return "manifest.plugin_id must be a non-empty string";
  if (!isNonEmpty(manifest.plugin_version)) return "manifest.plugin_version must be a non-empty string";
  if (typeof manifest.protocol_version !== "string") return "manifest.protocol_version must be a string";
  if (!isList(manifest.exposed_tools, isNonEmpty)) return "manifest.exposed_tools must be a list of names";
  if (manifest.capabilities !== undefined && !isList(manifest.capabilities, isString)) {
    return "manifest.capabilities must be a list of strings";
  }
  return undefined;
}

/** Checks the shape only; checkSideOutcome checks the rules between fields. */
export function checkSideResponse(line: JsonObject): string | undefined {
  if (line.type !== "response") return "type must be response";
  if (!isNonEmpty(line.request_id)) return "request_id must be a non-empty string";
  if (line.status !== "ok" && line.status !== "error") return "status must be ok or error";
  if (line.metadata !== undefined && !isObject(line.metadata)) return "metadata must be an object";
  const error = line.error;
  if (error === undefined) return undefined;
  if (!isObject(error)) return "error must be an object";
  if (!isNonEmpty(error.code)) return "error.code must be a non-empty string";
  if (typeof error.message !== "string") return "error.message must be a string";
  return undefined;
}

/** side.no-silent-success: a response that contradicts itself is a failure. */
export function checkSideOutcome(line: JsonObject, request_id: string): string | undefined {
  if (line.request_id !== request_id) return "request_id does not match the request";
  if (line.status === "ok")
    return line.error === undefined ? undefined : "status is ok, but an error is present";
  if (!isObject(line.error) || !isNonEmpty(line.error.message)) return "status is error without a message";
  return undefined;
}

function isList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem);
}

function isString(value: unknown): boolean {
  return typeof value === "string";
}
