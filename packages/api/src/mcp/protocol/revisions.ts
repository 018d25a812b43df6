/**
 * Determines the MCP revision of a request. Up to 2025-11-25 the client negotiates once, with `initialize`, and may
 * have a session. From 2026-07-28 on, every request is independent and states the revision in `_meta` and in its
 * headers.
 */
import type { IncomingHttpHeaders } from "node:http";
import {
  isObject,
  type JsonObject,
  MCP_ERRORS,
  MCP_META,
  MCP_NEGOTIATED,
  MCP_STATELESS,
} from "@backplane/contract";
import { type McpClientRequest, McpError } from "./json-rpc.ts";

/** Assumed when a client sends no version header. */
export const DEFAULT_REVISION = "2025-03-26";

/** The revision to respond to `initialize` with: the requested one, or the newest that can be negotiated. */
export function chooseRevision(requested: unknown): string {
  return MCP_NEGOTIATED.find((known) => known === requested) ?? MCP_NEGOTIATED[0];
}

/** Throws when the version header contains a revision that is not supported. */
export function checkVersionHeader(headers: IncomingHttpHeaders): void {
  const version = requestHeader(headers["mcp-protocol-version"]);
  if (version === undefined || version === MCP_STATELESS || MCP_NEGOTIATED.some((known) => known === version))
    return;
  throw unsupportedVersion(version);
}

export function hasStatelessVersion(headers: IncomingHttpHeaders): boolean {
  return requestHeader(headers["mcp-protocol-version"]) === MCP_STATELESS;
}

/** Whether a request uses the stateless revision. Throws when its `_meta` is invalid or its headers do not match it. */
export function isStateless(request: McpClientRequest, headers: IncomingHttpHeaders): boolean {
  const meta = isObject(request.params._meta) ? request.params._meta : {};
  const version = meta[MCP_META.version];
  if (version === undefined) {
    if (!hasStatelessVersion(headers)) return false;
    throw new McpError(
      MCP_ERRORS.invalid_params,
      `_meta must contain ${MCP_META.version} in revision ${MCP_STATELESS}`,
      {
        envelope: { missing: [MCP_META.version] },
      },
    );
  }
  if (typeof version !== "string")
    throw new McpError(MCP_ERRORS.invalid_params, `${MCP_META.version} must be a string`);
  // `initialize` of older revisions may have anything in its _meta.
  if (request.method === "initialize" && version < MCP_STATELESS) return false;
  if (hasStatelessVersion(headers)) expectHeader(headers, "mcp-protocol-version", version);
  if (version !== MCP_STATELESS) throw unsupportedVersion(version);
  if (!isObject(meta[MCP_META.client_capabilities])) {
    throw new McpError(MCP_ERRORS.invalid_params, `_meta must contain ${MCP_META.client_capabilities}`, {
      envelope: { missing: [MCP_META.client_capabilities] },
    });
  }
  checkHeaders(request, headers);
  return true;
}

/** Proxies route by these headers, so they must match the body. */
function checkHeaders({ method, params }: McpClientRequest, headers: IncomingHttpHeaders): void {
  expectHeader(headers, "mcp-protocol-version", MCP_STATELESS);
  expectHeader(headers, "mcp-method", method);
  const target_name = readTargetName(method, params);
  if (target_name !== undefined) expectHeader(headers, "mcp-name", target_name);
}

function expectHeader(headers: IncomingHttpHeaders, name: string, expected: string): void {
  const value = requestHeader(headers[name]);
  if (value !== undefined && decodeHeader(value) === expected) return;
  const problem = value === undefined ? "is missing" : "does not match the body";
  throw new McpError(MCP_ERRORS.header_mismatch, `the header ${name} ${problem}`);
}

function readTargetName(method: string, { name, uri }: JsonObject): string | undefined {
  if (method === "tools/call" || method === "prompts/get") return typeof name === "string" ? name : undefined;
  return method === "resources/read" && typeof uri === "string" ? uri : undefined;
}

/** `=?base64?…?=` encodes characters that a header cannot contain. */
function decodeHeader(value: string): string {
  const inner = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value)?.[1];
  return inner === undefined ? value : Buffer.from(inner, "base64").toString("utf8");
}

function unsupportedVersion(requested: string): McpError {
  return new McpError(
    MCP_ERRORS.unsupported_version,
    `Unsupported protocol version: ${requested.slice(0, 64)}`,
    {
      supported: [MCP_STATELESS, ...MCP_NEGOTIATED],
      requested: requested.slice(0, 64),
    },
  );
}

export function requestHeader(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? header.trim() : header?.[0]?.trim();
}
