import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import type { Store } from "@backplane/kernel/ports";
import { expect, test } from "vitest";
import { ids, sampleInvocation } from "./samples.ts";
import { freshOrg } from "./subject.ts";

export function onceCases(store: () => Store): void {
  test("a key is taken by the call that it opens, and racing requests open one call", async () => {
    const scope = freshOrg();
    const { invocations, idempotency } = store();
    const once = { key: "k", digest: "d", now: 1_000, stale_ms: 500 };
    expect(await idempotency.find(scope, "k", "d", 1_000, 500)).toEqual({ state: "new" });
    const rows = Array.from({ length: 8 }, () => sampleInvocation(scope));
    const opened = await Promise.allSettled(rows.map((row) => invocations.open(row, { once, facts: {} })));
    const won = rows.filter((_, n) => opened[n]!.status === "fulfilled");
    expect(won).toHaveLength(1);
    const refused = opened.filter((one) => one.status === "rejected").map((one) => one.reason.code);
    expect(refused).toEqual(Array(7).fill("idempotency.in_progress"));
    const there = await Promise.all(rows.map((row) => invocations.get(scope, row.id)));
    expect(there.filter((row) => row !== null).map((row) => row.id)).toEqual([won[0]!.id]);

    const done = { state: "done", status: 202, body: won[0]!.id };
    expect(await idempotency.find(scope, "k", "d", 2_000, 500)).toEqual(done);
    expect(await idempotency.find(scope, "k", "other", 2_000, 500)).toEqual({ state: "conflict" });
    expect(await idempotency.begin(scope, "k", "d", 2_000, 500)).toEqual(done);
    expect(await idempotency.find(freshOrg(), "k", "d", 2_000, 500)).toEqual({ state: "new" });
    const later = { ...once, now: 1_000 + IDEMPOTENCY_TTL_MS };
    const second = sampleInvocation(scope);
    await invocations.open(second, { once: later, facts: {} });
    expect(await idempotency.find(scope, "k", "d", later.now, 500)).toMatchObject({ body: second.id });
  });

  test("a key that another request is working under is not taken, until that is given up", async () => {
    const scope = freshOrg();
    const { invocations, idempotency } = store();
    await idempotency.begin(scope, "k", "d", 1_000, 500);
    expect(await idempotency.find(scope, "k", "d", 1_499, 500)).toEqual({ state: "in_progress" });
    const open = (now: number) =>
      invocations.open(sampleInvocation(scope), {
        once: { key: "k", digest: "d", now, stale_ms: 500 },
        facts: {},
      });
    await expect(open(1_499)).rejects.toMatchObject({ code: "idempotency.in_progress" });
    await open(1_500);
    await idempotency.finish(scope, "k", 200, "late", 1_600);
    expect(await idempotency.find(scope, "k", "d", 1_600, 500)).toMatchObject({ status: 202 });
  });

  test("a call that runs again gets a new token, and the old one is gone", async () => {
    const scope = freshOrg();
    const { invocations, delegations } = store();
    const row = sampleInvocation(scope);
    const token = (token_hash: string) => ({
      token_hash,
      invocation_id: row.id,
      scope,
      scopes: ["chains:read" as const],
      expires_at: 9_000,
    });
    const [first, second, third] = [ids.next("key"), ids.next("key"), ids.next("key")];
    await invocations.open(row, { delegation: token(first), facts: {} });
    expect(await invocations.retried(row.id, 1, 1)).toBe(true);
    expect(await delegations.byHash(first)).toEqual(token(first));
    expect(await invocations.retried(row.id, 2, 2, { delegation: token(third) })).toBe(false);
    expect(await invocations.retried(row.id, 1, 2, { delegation: token(second) })).toBe(true);
    expect(await delegations.byHash(first)).toBeNull();
    expect(await delegations.byHash(second)).toEqual(token(second));
    expect(await delegations.byHash(third)).toBeNull();
    expect(await invocations.retried(row.id, 1, 3, {})).toBe(true);
    expect(await delegations.byHash(second)).toBeNull();
    expect((await invocations.get(scope, row.id))?.retry_count).toBe(3);
  });

  test("how deep a call is, is kept", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({ ...scope, depth: 3 });
    await store().invocations.open(row, { facts: {} });
    expect(await store().invocations.get(scope, row.id)).toEqual(row);
    expect((await store().invocations.list(scope, {}, { limit: 1 })).items[0]).not.toHaveProperty("depth");
  });
}
