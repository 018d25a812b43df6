/** Access to the gateway's own API from inside a call, limited to the rights of the call's delegated token. */
import type { DelegationScope, InvocationContext, Json } from "@backplane/contract";
import { fail, retryLater } from "./outcome.ts";

export interface GatewayAccess {
  readonly base_url: string;
  readonly scopes: readonly DelegationScope[];
  /** `fetch` for a path of the gateway. Unless `init` has a signal, the request is aborted with the call. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Sends and reads JSON; a response that is not 2xx ends the call with the gateway's message. */
  json<Body = Json>(path: string, request?: GatewayRequest): Promise<Body>;
}

interface GatewayRequest {
  method?: string;
  body?: unknown;
  /** A repeated create with the same key gets the result of the first. */
  idempotency_key?: string;
}

export function createGatewayAccess(
  gateway: InvocationContext["gateway"],
  signal: () => AbortSignal,
): GatewayAccess {
  const send = async (path: string, init: RequestInit = {}) => {
    if (gateway.delegation_token === undefined) {
      fail("This call has no gateway token. Add gateway_api_scopes to its permissions in vai-plugin.toml.");
    }
    const base = new URL(gateway.base_url);
    const url = new URL(path, base);
    // The token must not reach another host, no matter how the path was built.
    if (url.origin !== base.origin)
      fail(`${url.origin} is not the gateway; use a path such as /v1/sessions.`);
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${gateway.delegation_token}`);
    return fetch(url, { redirect: "error", ...init, headers, signal: init.signal ?? signal() });
  };
  return {
    base_url: gateway.base_url,
    scopes: gateway.scopes,
    fetch: send,
    async json<Body>(path: string, { method, body, idempotency_key }: GatewayRequest = {}) {
      const headers = new Headers();
      if (body !== undefined) headers.set("content-type", "application/json");
      if (idempotency_key !== undefined) headers.set("idempotency-key", idempotency_key);
      const response = await send(path, {
        method: method ?? (body === undefined ? "GET" : "POST"),
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (response.ok) return (await response.json()) as Body;
      const message = `The gateway returned HTTP ${response.status} for ${path}: ${await readReason(response)}`;
      return response.status === 429 || response.status >= 500 ? retryLater(message) : fail(message);
    },
  };
}

async function readReason(response: Response): Promise<string> {
  const body = await response.text();
  try {
    const envelope = JSON.parse(body) as { error?: { message?: string } };
    return envelope.error?.message ?? body.slice(0, 200);
  } catch {
    return body.slice(0, 200);
  }
}
