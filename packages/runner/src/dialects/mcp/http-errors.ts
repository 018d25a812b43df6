/** Converts unsuccessful HTTP responses of an MCP server to errors. */
import { hash } from "node:crypto";
import { BackplaneError, isObject, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { ServerChallenge } from "@backplane/ports";
import type { RpcFailure } from "./rpc-channel.ts";

const CHALLENGE_CHARS = 8_192;
const PARAM_CHARS = 2_048;

/** Returns the JSON-RPC error in the body, or null. Throws `malformed_response` if the body has a result as well. */
export function readRpcError(text: Buffer): RpcFailure | null {
  let value: unknown;
  try {
    value = JSON.parse(text.toString("utf8"));
  } catch {
    return null;
  }
  const error = isObject(value) ? value.error : undefined;
  if (!isObject(error) || typeof error.code !== "number" || typeof error.message !== "string") return null;
  if ((value as JsonObject).result !== undefined) {
    throw new BackplaneError("malformed_response", "The MCP server answered with a result and an error.");
  }
  const { code, message, data } = error;
  return data === undefined ? { code, message } : { code, message, data };
}

/**
 * A server of an older revision supports neither the method nor its headers and may return any of these statuses.
 */
export function isRefusedProbe({ method }: JsonObject, status: number): boolean {
  return method === "server/discover" && status >= 400 && status < 500 && status !== 401 && status !== 403;
}

export function probeRejection(status: number): RpcFailure {
  return { code: MCP_ERRORS.method_not_found, message: `HTTP ${status}` };
}

/** Describes the sign-in that the server requires with 401, or 403 and insufficient scope. Null for other responses. */
export function signInError(
  status: number,
  header: string | undefined,
  credential: string | undefined,
): BackplaneError | null {
  const challenge = readChallenge(header);
  if (status !== 401 && !(status === 403 && challenge.error === "insufficient_scope")) return null;
  const credential_hash = credential === undefined ? null : hash("sha256", credential, "hex");
  const description = status === 401 ? "requires a sign-in" : "requires more scope";
  return new BackplaneError("sign_in.needed", `The MCP server ${description} (HTTP ${status}).`, {
    details: { challenge: { status, ...challenge, shown: credential_hash } },
  });
}

/** Reads the first Bearer challenge of a WWW-Authenticate header (RFC 6750, RFC 9728). */
function readChallenge(header = ""): Omit<ServerChallenge, "status" | "shown"> {
  const start = /(?:^|[\s,])Bearer(?=[\s,]|$)/i.exec(header.slice(0, CHALLENGE_CHARS));
  const parameters = new Map<string, string>();
  const param = /[\s,]*([A-Za-z0-9_.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/y;
  param.lastIndex = start === null ? header.length : start.index + start[0].length;
  for (let match = param.exec(header); match !== null; match = param.exec(header)) {
    const name = match[1]!.toLowerCase();
    if (!parameters.has(name)) parameters.set(name, match[2]?.replaceAll(/\\(.)/g, "$1") ?? match[3]!);
  }
  const text = (name: string) => parameters.get(name)?.slice(0, PARAM_CHARS) ?? null;
  return { error: text("error"), scope: text("scope"), resource_metadata: text("resource_metadata") };
}

export function httpError(status: number, text: Buffer, location?: string): BackplaneError {
  if (status === 403) {
    return new BackplaneError("plugin_failed", "The MCP server does not allow this request (HTTP 403).", {
      details: { http_status: status },
    });
  }
  if (status >= 300 && status < 400) {
    const where = location === undefined ? "" : ` to ${location.slice(0, 200)}`;
    return new BackplaneError(
      "plugin_failed",
      `The MCP server redirects${where}; redirects are not followed.`,
      { details: { http_status: status } },
    );
  }
  const excerpt = text.toString("utf8", 0, 300).replace(/\s+/g, " ").trim();
  const reason = excerpt === "" ? "." : `: ${excerpt}`;
  const code = status === 429 || status >= 500 ? "plugin_retryable" : "plugin_failed";
  return new BackplaneError(code, `The MCP server returned HTTP ${status}${reason}`, {
    details: { http_status: status },
  });
}
