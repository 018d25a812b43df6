/**
 * Idempotency-Key: the first request with a key does the work, and repeats get the stored response, or the created row
 * as it is now. Keys are scoped to the caller's project. The actor is part of the digest, so another caller that uses
 * the same key for the same request gets a conflict instead of the first caller's response.
 */
import { hash } from "node:crypto";
import { BackplaneError, canonicalJson, type JsonObject } from "@backplane/contract";
import type { Caller, IdempotencyClaim, Kernel } from "@backplane/ports";
import type { FastifyRequest } from "fastify";
import type { RouteResponse } from "../http/route.ts";

/** Null when the request has no Idempotency-Key header. */
export function readIdempotencyKey(request: FastifyRequest): string | null {
  const key = request.headers["idempotency-key"];
  if (key === undefined) return null;
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    const message = "Idempotency-Key must be 1 to 255 visible ASCII characters.";
    throw new BackplaneError("request.invalid", message, {
      details: { issues: [{ path: "header.idempotency-key", message }] },
    });
  }
  return key;
}

/** These parameters decide only how the response is delivered, so a repeat may use different ones. */
const DELIVERY_PARAMETERS: ReadonlySet<string> = new Set(["wait", "stream"]);

/** Covers everything in the URL and the body that decides what the request does. */
export function requestDigest(caller: Caller, request: FastifyRequest, body: unknown): string {
  const path = request.url.split("?", 1)[0];
  const parameters = Object.entries(request.query as JsonObject).filter(
    ([name]) => !DELIVERY_PARAMETERS.has(name),
  );
  const query = parameters.length === 0 ? "" : `?${canonicalJson(Object.fromEntries(parameters))}`;
  // A resumed harness is another call of the same execution.
  const actor = caller.delegation?.execution_id ?? caller.actor;
  return hash("sha256", `${actor}\n${request.method}\n${path}${query}\n${canonicalJson(body ?? null)}`);
}

/** Does the work once per key and stores its whole JSON response for repeats. Without a key, only does the work. */
export async function respondOnce(
  kernel: Kernel,
  caller: Caller,
  request: FastifyRequest,
  body: unknown,
  work: () => Promise<{ status: number; json: unknown; headers?: Record<string, string> }>,
): Promise<RouteResponse> {
  const key = readIdempotencyKey(request);
  if (key === null) return work();
  let headers: Record<string, string> | undefined;
  const done = await kernel.idempotency.once(caller, key, requestDigest(caller, request, body), async () => {
    const response = await work();
    headers = response.headers;
    return { status: response.status, body: JSON.stringify(response.json) };
  });
  return {
    status: done.status,
    text: done.body,
    type: "application/json; charset=utf-8",
    headers: done.replayed ? REPLAYED_HEADERS : (headers ?? {}),
  };
}

/** Runs a create that claims the key in its own transaction. A repeat gets the created row as it is now. */
export async function createInTransaction<T, B>(
  kernel: Kernel,
  caller: Caller,
  request: FastifyRequest,
  body: unknown,
  status: number,
  run: { create: (once?: IdempotencyClaim) => Promise<T>; readExisting: (stored: B) => Promise<T> },
): Promise<RouteResponse> {
  const key = readIdempotencyKey(request);
  if (key === null) return { status, json: await run.create() };
  const digest = requestDigest(caller, request, body);
  const { result, stored } = await kernel.idempotency.open(caller, key, digest, run.create);
  if (stored === null) return { status, json: result };
  return { status, json: await run.readExisting(JSON.parse(stored) as B), headers: REPLAYED_HEADERS };
}

export const REPLAYED_HEADERS = { "idempotency-replayed": "true" };
