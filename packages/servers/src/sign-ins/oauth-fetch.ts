/**
 * Requests of the sign-in: only over https, or to this very machine; one answer, small, in time, no redirect followed. Where
 * they may go is what host, org and project leave, and private places only as the operator opened them.
 */

import {
  BackplaneError,
  type Json,
  type JsonObject,
  plainWords,
  toBackplaneError,
} from "@backplane/contract";
import type { KernelDeps, Scope } from "@backplane/ports";
import { gatewayDomains } from "@backplane/registry";

interface OAuthAnswer {
  status: number;
  /** Null: the body is no JSON object. */
  json: JsonObject | null;
}

export interface OAuthFetch {
  get(url: string): Promise<OAuthAnswer>;
  postForm(
    url: string,
    form: URLSearchParams,
    headers?: Record<string, string>,
    timeout_ms?: number,
  ): Promise<OAuthAnswer>;
  postJson(url: string, body: JsonObject): Promise<OAuthAnswer>;
}

const ANSWER_BYTES = 256 * 1024;
const TIMEOUT_MS = 15_000;
const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

export function oauthFetch({ runner, host }: Pick<KernelDeps, "runner" | "host">, scope: Scope): OAuthFetch {
  const allowed_domains = gatewayDomains(scope, host);

  async function ask(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string | null,
    timeout_ms = TIMEOUT_MS,
  ): Promise<OAuthAnswer> {
    if (runner.fetch === undefined) throw signInFailed("this gateway makes no requests of its own");
    const href = safeUrl(url, "an address of the sign-in").href;
    try {
      const answer = await runner.fetch({
        url: href,
        method,
        headers: { accept: "application/json", ...headers },
        body,
        encoding: "utf8",
        timeout_ms,
        allowed_domains,
        answer_bytes: ANSWER_BYTES,
      });
      return { status: answer.status, json: answer.encoding === "utf8" ? objectIn(answer.body) : null };
    } catch (error) {
      const { message, fix, code } = toBackplaneError(error);
      throw new BackplaneError("sign_in.failed", message, {
        cause: error,
        retryable: code === "egress.unreachable",
        ...(code === "policy.denied"
          ? { fix: "If you trust the place, an operator adds its host:port to egress.allow_private." }
          : { fix }),
      });
    }
  }

  return {
    get: (url) => ask("GET", url, {}, null),
    postForm(url, form, headers = {}, timeout_ms) {
      const all = { "content-type": "application/x-www-form-urlencoded", ...headers };
      return ask("POST", url, all, form.toString(), timeout_ms);
    },
    postJson: (url, body) => ask("POST", url, { "content-type": "application/json" }, JSON.stringify(body)),
  };
}

/** Also for what a browser is sent to: nothing but the web, and no user in it. */
export function safeUrl(text: Json | undefined, what: string): URL {
  const url = typeof text === "string" && URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.username !== "" || url.password !== "" || !isSafe(url)) {
    throw signInFailed(`${what} must be https (or http on this machine), which ${short(text)} is not`);
  }
  return url;
}

function isSafe({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && LOOPBACK.has(hostname));
}

export function signInFailed(why: string): BackplaneError {
  return new BackplaneError("sign_in.failed", `The sign-in did not succeed: ${why}.`);
}

/** A stranger's words, cut, without line breaks, and with a mark where something was hidden. */
export function short(value: unknown, chars = 200): string {
  const text = typeof value === "string" ? value : value === undefined ? "nothing" : JSON.stringify(value);
  // Cut first: they may be long, and a mark is never longer than what it stands for.
  return plainWords(text.slice(0, chars)).replaceAll(/\s+/g, " ");
}

function objectIn(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json;
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
