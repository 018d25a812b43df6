/**
 * The headers of a message: the fields that the stateless revision repeats for proxies, and those of the binding. A
 * header of the binding may contain `${slot}`, a placeholder for a secret that is filled in here and never stored.
 */
import { BackplaneError, fillPlaceholders, isObject, type JsonObject, MCP_META } from "@backplane/contract";

const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
/** Headers that only the gateway sets. */
const RESERVED =
  /^(?:host|content-length|content-type|accept|connection|transfer-encoding|mcp-.*|last-event-id)$/i;
/** This secret slot becomes a header even if the config does not mention it. */
const AUTHORIZATION = "authorization";

export function messageHeaders(message: JsonObject): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const { method } = message;
  const params = isObject(message.params) ? message.params : {};
  const version = isObject(params._meta) ? params._meta[MCP_META.version] : undefined;
  if (typeof method !== "string" || typeof version !== "string") return headers;
  headers["mcp-protocol-version"] = version;
  headers["mcp-method"] = method;
  const target = method === "resources/read" ? params.uri : params.name;
  const has_target = method === "tools/call" || method === "prompts/get" || method === "resources/read";
  if (has_target && typeof target === "string") headers["mcp-name"] = encodeHeaderValue(target);
  return headers;
}

/** A header holds printable ASCII without spaces at its ends. Any other value is sent as base64. */
export function encodeHeaderValue(value: string): string {
  const plain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !value.startsWith("=?base64?");
  return plain ? value : `=?base64?${Buffer.from(value).toString("base64")}?=`;
}

export function bindingHeaders(
  secrets: Readonly<Record<string, string>>,
  config: JsonObject,
): Record<string, string> {
  const headers: Record<string, string> = {};
  const configured = config.headers;
  for (const [name, value] of Object.entries(isObject(configured) ? configured : {})) {
    if (!NAME.test(name) || RESERVED.test(name))
      throw invalidConfig(name, "a binding cannot set this header");
    if (typeof value !== "string") throw invalidConfig(name, "its value is not a string");
    headers[name.toLowerCase()] = fillHeader(name, value, secrets);
  }
  const token = secrets[AUTHORIZATION];
  if (token !== undefined && headers[AUTHORIZATION] === undefined) {
    headers[AUTHORIZATION] = checkValue(
      AUTHORIZATION,
      /\s/.test(token.trim()) ? token.trim() : `Bearer ${token.trim()}`,
    );
  }
  return headers;
}

function fillHeader(name: string, value: string, secrets: Readonly<Record<string, string>>): string {
  const getSecret = (slot: string) => {
    const secret = secrets[slot];
    if (secret === undefined) throw invalidConfig(name, `its secret slot ${slot} is not bound`);
    return secret;
  };
  return checkValue(name, fillPlaceholders(value, getSecret));
}

/** The error message must not contain the value. */
function checkValue(name: string, value: string): string {
  if (/[^\t\x20-\x7e\x80-\xff]/.test(value))
    throw invalidConfig(name, "its value contains characters that are not allowed in a header");
  return value;
}

function invalidConfig(name: string, reason: string): BackplaneError {
  return new BackplaneError(
    "launch_failed",
    `The binding's header ${name.slice(0, 80)} is invalid: ${reason}.`,
    {
      fix: "Correct config.headers or the secrets of the binding.",
    },
  );
}
