/** What an HTTP status that is no success comes to. */
import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { RpcFailure } from "./conversation.ts";
import { isObject, RPC } from "./revisions.ts";

/** A JSON-RPC error in the body; null where there is none. */
export function describesError(text: Buffer): RpcFailure | null {
  try {
    const value: unknown = JSON.parse(text.toString("utf8"));
    const error = isObject(value) ? value.error : undefined;
    if (!isObject(error) || typeof error.code !== "number" || typeof error.message !== "string") return null;
    const { code, message, data } = error;
    return data === undefined ? { code, message } : { code, message, data };
  } catch {
    return null;
  }
}

/** A server of an older revision knows neither the method nor its headers, and may say so in any of these ways. */
export function isRefusedProbe({ method }: JsonObject, status: number): boolean {
  return method === "server/discover" && status >= 400 && status < 500 && status !== 401 && status !== 403;
}

export function answerlessError(status: number): RpcFailure {
  return { code: RPC.method_not_found, message: `HTTP ${status}` };
}

export function answerError(status: number, text: Buffer, location?: string): BackplaneError {
  if (status === 401 || status === 403) {
    const what = status === 401 ? "asks for a credential" : "refuses this credential";
    return new BackplaneError("plugin_failed", `The MCP server ${what} (HTTP ${status}).`, {
      details: { http_status: status },
      fix: "Bind a secret to its slot `authorization`: backplane binding set ID --secret authorization=NAME",
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
  const words = text.toString("utf8", 0, 300).replace(/\s+/g, " ").trim();
  const said = words === "" ? "" : `: ${words}`;
  const code = status === 429 || status >= 500 ? "plugin_retryable" : "plugin_failed";
  return new BackplaneError(code, `The MCP server answered HTTP ${status}${said}`, {
    details: { http_status: status },
  });
}
