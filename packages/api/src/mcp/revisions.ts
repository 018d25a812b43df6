/**
 * Which revision of MCP a request speaks. Up to 2025-11-25 a connection negotiates once, by `initialize`, and may have
 * a session; from 2026-07-28 on every request says it in `_meta`, repeats it in headers, and stands alone.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@backplane/contract";
import { isObject, RPC, RpcError, type RpcRequest } from "./json-rpc.ts";

export const STATELESS = "2026-07-28";
export const NEGOTIATED = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] as const;
/** What a client means that sends no version header. */
export const UNSAID = "2025-03-26";

export const META = {
  version: "io.modelcontextprotocol/protocolVersion",
  client_capabilities: "io.modelcontextprotocol/clientCapabilities",
  log_level: "io.modelcontextprotocol/logLevel",
  server_info: "io.modelcontextprotocol/serverInfo",
  subscription: "io.modelcontextprotocol/subscriptionId",
} as const;

/** The revision to answer `initialize` with: the one that was asked for, or the newest that can be negotiated. */
export function negotiate(asked: unknown): string {
  return NEGOTIATED.find((known) => known === asked) ?? NEGOTIATED[0];
}

/** Throws where a negotiated revision is named that nobody here speaks. */
export function checkVersionHeader(headers: IncomingHttpHeaders): void {
  const named = one(headers["mcp-protocol-version"]);
  if (named === undefined || named === STATELESS || NEGOTIATED.some((known) => known === named)) return;
  throw unsupported(named);
}

export function namesStateless(headers: IncomingHttpHeaders): boolean {
  return one(headers["mcp-protocol-version"]) === STATELESS;
}

/** Whether a request is of the stateless revision; throws where it half says so. */
export function isStateless(request: RpcRequest, headers: IncomingHttpHeaders): boolean {
  const meta = isObject(request.params._meta) ? request.params._meta : {};
  const claimed = meta[META.version];
  if (claimed === undefined) {
    if (!namesStateless(headers)) return false;
    throw new RpcError(RPC.invalid_params, `_meta lacks ${META.version}, which ${STATELESS} requires`, {
      envelope: { missing: [META.version] },
    });
  }
  if (typeof claimed !== "string") throw new RpcError(RPC.invalid_params, `${META.version} must be a text`);
  // The handshake of older revisions may carry anything in its _meta.
  if (request.method === "initialize" && claimed < STATELESS) return false;
  if (namesStateless(headers)) expectHeader(headers, "mcp-protocol-version", claimed);
  if (claimed !== STATELESS) throw unsupported(claimed);
  if (!isObject(meta[META.client_capabilities])) {
    throw new RpcError(RPC.invalid_params, `_meta lacks ${META.client_capabilities}`, {
      envelope: { missing: [META.client_capabilities] },
    });
  }
  checkHeaders(request, headers);
  return true;
}

/** Proxies decide by these headers, so they must say what the body says. */
function checkHeaders({ method, params }: RpcRequest, headers: IncomingHttpHeaders): void {
  expectHeader(headers, "mcp-protocol-version", STATELESS);
  expectHeader(headers, "mcp-method", method);
  const named = nameOf(method, params);
  if (named !== undefined) expectHeader(headers, "mcp-name", named);
}

function expectHeader(headers: IncomingHttpHeaders, name: string, expected: string): void {
  const sent = one(headers[name]);
  if (sent !== undefined && decoded(sent) === expected) return;
  const what = sent === undefined ? "is missing" : "disagrees with the body";
  throw new RpcError(RPC.header_mismatch, `the header ${name} ${what}`);
}

function nameOf(method: string, { name, uri }: JsonObject): string | undefined {
  if (method === "tools/call" || method === "prompts/get") return typeof name === "string" ? name : undefined;
  return method === "resources/read" && typeof uri === "string" ? uri : undefined;
}

/** `=?base64?…?=` carries what a header cannot. */
function decoded(value: string): string {
  const inner = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value)?.[1];
  return inner === undefined ? value : Buffer.from(inner, "base64").toString("utf8");
}

function unsupported(requested: string): RpcError {
  return new RpcError(RPC.unsupported_version, `Unsupported protocol version: ${requested.slice(0, 64)}`, {
    supported: [STATELESS, ...NEGOTIATED],
    requested: requested.slice(0, 64),
  });
}

export function one(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? header.trim() : header?.[0]?.trim();
}
