import type { Caller } from "@backplane/ports";
import type { FastifyRequest } from "fastify";
import { describe, expect, test } from "vitest";
import { requestDigest } from "../../src/requests/idempotency.ts";

const caller = { actor: "key_1" } as Caller;
const digestOf = (query: Record<string, string>, method = "POST", path = "/v1/things") => {
  const url = `${path}?${new URLSearchParams(query)}`;
  return requestDigest(caller, { method, url, query } as unknown as FastifyRequest, { a: 1 });
};

describe("the digest of a request with an Idempotency-Key", () => {
  test("differs for another query, whatever the order of the parameters", () => {
    expect(digestOf({ strict: "1" })).not.toBe(digestOf({}));
    expect(digestOf({ strict: "1" })).not.toBe(digestOf({ strict: "0" }));
    expect(digestOf({ a: "1", b: "2" })).toBe(digestOf({ b: "2", a: "1" }));
  });

  test("is the same for a repeat that waits longer or is streamed", () => {
    expect(digestOf({ wait: "60" })).toBe(digestOf({}));
    expect(digestOf({ stream: "1", workspace: "w" })).toBe(digestOf({ workspace: "w" }));
  });
});
