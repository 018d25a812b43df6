/**
 * Idempotency-Key: the first request with a key does the work, repeats get its answer. The key belongs to the
 * caller's scope; another caller that uses the same key for the same request is told of a conflict rather than
 * shown someone else's answer, since the actor is part of the digest.
 */
import { hash } from "node:crypto";
import { BackplaneError, canonicalJson } from "@backplane/contract";
import type { Caller, Kernel, OnceKey } from "@backplane/kernel";
import type { FastifyRequest } from "fastify";
import type { Answer } from "./route.ts";

/** The key of this request, or null when it has none. */
export function idempotencyKey(request: FastifyRequest): string | null {
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

export function requestDigest(caller: Caller, request: FastifyRequest, body: unknown): string {
  const path = request.url.split("?", 1)[0];
  return hash("sha256", `${caller.actor}\n${request.method}\n${path}\n${canonicalJson(body ?? null)}`);
}

/** Runs a create whose whole JSON answer may be kept for a repeat. */
export async function createOnce(
  kernel: Kernel,
  caller: Caller,
  request: FastifyRequest,
  body: unknown,
  work: () => Promise<{ status: number; json: unknown; headers?: Record<string, string> }>,
): Promise<Answer> {
  const key = idempotencyKey(request);
  if (key === null) return work();
  let headers: Record<string, string> | undefined;
  const done = await kernel.idempotency.once(caller, key, requestDigest(caller, request, body), async () => {
    const answer = await work();
    headers = answer.headers;
    return { status: answer.status, body: JSON.stringify(answer.json) };
  });
  return {
    status: done.status,
    text: done.body,
    type: "application/json; charset=utf-8",
    headers: done.replayed ? REPLAYED : (headers ?? {}),
  };
}

/**
 * A create that takes the key in its own transaction. `again` tells of what the key has made, as it is now: `before` is
 * what the key was answered with.
 */
export async function beginOnce<T, B>(
  kernel: Kernel,
  caller: Caller,
  request: FastifyRequest,
  body: unknown,
  status: number,
  act: { begin: (once?: OnceKey) => Promise<T>; again: (before: B) => Promise<T> },
): Promise<Answer> {
  const key = idempotencyKey(request);
  if (key === null) return { status, json: await act.begin() };
  const digest = requestDigest(caller, request, body);
  const { began, before } = await kernel.idempotency.open(caller, key, digest, act.begin);
  if (before === null) return { status, json: began };
  return { status, json: await act.again(JSON.parse(before) as B), headers: REPLAYED };
}

export const REPLAYED = { "idempotency-replayed": "true" };
