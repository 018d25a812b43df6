/**
 * HTTP requests that a sign-in sends. They go only to https addresses or to loopback, follow no redirects, and have
 * limits for size and time. Host, org and project policy decide which domains they may reach; private addresses are
 * reachable only if the operator allowed them.
 */

import {
  BackplaneError,
  isObject,
  type Json,
  type JsonObject,
  sanitizeText,
  toBackplaneError,
} from "@backplane/contract";
import type { KernelDeps, Scope } from "@backplane/ports";
import { gatewayDomains } from "@backplane/registry";

interface OAuthResponse {
  status: number;
  /** Null when the body is not a JSON object. */
  json: JsonObject | null;
}

export interface OAuthFetch {
  get(url: string): Promise<OAuthResponse>;
  postForm(
    url: string,
    form: URLSearchParams,
    headers?: Record<string, string>,
    timeout_ms?: number,
  ): Promise<OAuthResponse>;
  postJson(url: string, body: JsonObject): Promise<OAuthResponse>;
}

const MAX_RESPONSE_BYTES = 256 * 1024;
const TIMEOUT_MS = 15_000;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function createOAuthFetch(
  { runner, host }: Pick<KernelDeps, "runner" | "host">,
  scope: Scope,
): OAuthFetch {
  const allowed_domains = gatewayDomains(scope, host);

  async function request(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string | null,
    timeout_ms = TIMEOUT_MS,
  ): Promise<OAuthResponse> {
    if (runner.fetch === undefined) throw signInFailedError("this gateway cannot send HTTP requests");
    const href = requireSafeUrl(url, "a URL of the sign-in").href;
    try {
      const response = await runner.fetch({
        url: href,
        method,
        headers: { accept: "application/json", ...headers },
        body,
        encoding: "utf8",
        timeout_ms,
        allowed_domains,
        max_response_bytes: MAX_RESPONSE_BYTES,
      });
      return {
        status: response.status,
        json: response.encoding === "utf8" ? parseObject(response.body) : null,
      };
    } catch (error) {
      const { message, fix, code } = toBackplaneError(error);
      throw new BackplaneError("sign_in.failed", message, {
        cause: error,
        retryable: code === "egress.unreachable",
        ...(code === "policy.denied"
          ? { fix: "If you trust this address, add its host:port to egress.allow_private." }
          : { fix }),
      });
    }
  }

  return {
    get: (url) => request("GET", url, {}, null),
    postForm(url, form, headers = {}, timeout_ms) {
      const form_headers = { "content-type": "application/x-www-form-urlencoded", ...headers };
      return request("POST", url, form_headers, form.toString(), timeout_ms);
    },
    postJson: (url, body) =>
      request("POST", url, { "content-type": "application/json" }, JSON.stringify(body)),
  };
}

/**
 * Accepts only https URLs, or http URLs on loopback, without user and password. Also checks URLs that a browser is
 * redirected to.
 */
export function requireSafeUrl(text: Json | undefined, label: string): URL {
  const url = typeof text === "string" && URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.username !== "" || url.password !== "" || !isSafe(url)) {
    throw signInFailedError(`${label} must be an https URL (or http on loopback), not ${excerpt(text)}`);
  }
  return url;
}

function isSafe({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && LOOPBACK.has(hostname));
}

export function signInFailedError(reason: string): BackplaneError {
  return new BackplaneError("sign_in.failed", `The sign-in failed: ${reason}.`);
}

/** Truncates untrusted text, replaces each run of white space with one space, and marks hidden characters. */
export function excerpt(value: unknown, chars = 200): string {
  const text = typeof value === "string" ? value : value === undefined ? "nothing" : JSON.stringify(value);
  // The text is truncated first because it may be long; sanitizing never makes it longer.
  return sanitizeText(text.slice(0, chars)).replaceAll(/\s+/g, " ");
}

function parseObject(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
