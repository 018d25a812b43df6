import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import type { SessionKey, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { freshKey, message, newChain, newSession, start } from "../support/sample-sessions.ts";
import { ids, sampleInvocation, sampleSettlement } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function idempotencyCases(store: () => Store): void {
  test("completes a key with the call that it opens, and opens one call for concurrent requests", async () => {
    const scope = freshOrg();
    const { invocations, idempotency } = store();
    const once = { scope, key: "k", digest: "d", now: 1_000, stale_ms: 500 };
    expect(await idempotency.find(scope, "k", "d", 1_000, 500)).toEqual({ state: "new" });
    const rows = Array.from({ length: 8 }, () => sampleInvocation(scope));
    const opened = await Promise.allSettled(rows.map((row) => invocations.open(row, { once, records: {} })));
    const stored_rows = rows.filter((_, n) => opened[n]!.status === "fulfilled");
    expect(stored_rows).toHaveLength(1);
    const refused = opened.filter((item) => item.status === "rejected").map((item) => item.reason.code);
    expect(refused).toEqual(Array(7).fill("idempotency.in_progress"));
    const stored = await Promise.all(rows.map((row) => invocations.get(scope, row.id)));
    expect(stored.filter((row) => row !== null).map((row) => row.id)).toEqual([stored_rows[0]!.id]);

    const done = { state: "done", status: 202, body: stored_rows[0]!.id };
    expect(await idempotency.find(scope, "k", "d", 2_000, 500)).toEqual(done);
    expect(await idempotency.find(scope, "k", "other", 2_000, 500)).toEqual({ state: "conflict" });
    expect(await idempotency.begin(scope, "k", "d", 2_000, 500)).toEqual(done);
    expect(await idempotency.find(freshOrg(), "k", "d", 2_000, 500)).toEqual({ state: "new" });
    const later = { ...once, now: 1_000 + IDEMPOTENCY_TTL_MS };
    const second = sampleInvocation(scope);
    await invocations.open(second, { once: later, records: {} });
    expect(await idempotency.find(scope, "k", "d", later.now, 500)).toMatchObject({ body: second.id });
  });

  test("refuses a key that another request has claimed until that claim is stale", async () => {
    const scope = freshOrg();
    const { invocations, idempotency } = store();
    await idempotency.begin(scope, "k", "d", 1_000, 500);
    expect(await idempotency.find(scope, "k", "d", 1_499, 500)).toEqual({ state: "in_progress" });
    const open = (now: number) =>
      invocations.open(sampleInvocation(scope), {
        once: { scope, key: "k", digest: "d", now, stale_ms: 500 },
        records: {},
      });
    await expect(open(1_499)).rejects.toMatchObject({ code: "idempotency.in_progress" });
    await open(1_500);
    await idempotency.finish(scope, "k", 200, "late", 1_600);
    expect(await idempotency.find(scope, "k", "d", 1_600, 500)).toMatchObject({ status: 202 });
  });

  test("completes keys with sessions, chains and entries, and writes nothing for a used key", async () => {
    const key = freshKey();
    const { scope } = key;
    const { sessions, idempotency } = store();
    const createClaim = (name: string) => ({ scope, key: name, digest: "d", now: 1_000, stale_ms: 500 });
    const readResponse = async (name: string) => {
      const key_state = await idempotency.find(scope, name, "d", 1_000, 500);
      return key_state.state === "done" ? JSON.parse(key_state.body) : key_state.state;
    };
    const in_progress = { code: "idempotency.in_progress" };
    const { head_chain_id } = await sessions.create(
      newSession(key),
      newChain(),
      [start],
      {},
      createClaim("s"),
    );
    expect(await readResponse("s")).toEqual({ session_id: key.session_id, workspace: key.workspace });
    const other = { ...key, session_id: "other" };
    const create = (name: string) =>
      sessions.create(newSession(other), newChain(), [start], {}, createClaim(name));
    await expect(create("s")).rejects.toMatchObject(in_progress);
    expect(await sessions.get(other)).toBeNull();
    // A write that is refused for another reason does not use the key.
    const same = sessions.create(newSession(key), newChain(), [start], {}, createClaim("s2"));
    await expect(same).rejects.toMatchObject({ code: "session.conflict" });
    expect(await readResponse("s2")).toBe("new");

    const entries = [message("one"), message("two")];
    const append = (name: string) =>
      sessions.append(key, entries, undefined, { ...createClaim(name), response_fields: { n: 1 } });
    const { last_id } = await append("e");
    expect(await readResponse("e")).toEqual({ n: 1, entry_id: last_id });
    await expect(append("e")).rejects.toMatchObject(in_progress);
    expect(await sessions.replay(key, last_id, 9)).toEqual([]);
    expect(await sessions.append(key, [message("three")])).toMatchObject({ first_id: last_id + 1 });

    const fork = (child: SessionKey | null) =>
      sessions.fork(
        { scope, chain_id: head_chain_id },
        newChain(),
        child === null ? null : newSession(child),
        {},
        createClaim("f"),
      );
    const { id } = await fork(null);
    expect(await readResponse("f")).toEqual({ id });
    await expect(fork(other)).rejects.toMatchObject(in_progress);
    expect(await sessions.get(other)).toBeNull();
    expect((await sessions.listChains(key, { limit: 9 })).items).toHaveLength(2);
    expect(await sessions.verify(scope, head_chain_id)).toBeNull();
  });

  test("replaces the token of a call that runs again", async () => {
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
    const retry = (retry_count: number) => ({ ...row, retry_count });
    const [first, second, third] = [ids.next("key"), ids.next("key"), ids.next("key")];
    await invocations.open(row, { delegation: token(first), records: {} });
    expect(await invocations.recordRetry(retry(1))).toBe(true);
    expect(await delegations.findByHash(first)).toEqual(token(first));
    expect(await invocations.recordRetry({ ...retry(2), fence: 2 }, { delegation: token(third) })).toBe(
      false,
    );
    expect(await invocations.recordRetry(retry(2), { delegation: token(second) })).toBe(true);
    expect(await delegations.findByHash(first)).toBeNull();
    expect(await delegations.findByHash(second)).toEqual(token(second));
    expect(await delegations.findByHash(third)).toBeNull();
    expect(await invocations.recordRetry(retry(3), {})).toBe(true);
    expect(await delegations.findByHash(second)).toBeNull();
    expect((await invocations.get(scope, row.id))?.retry_count).toBe(3);
  });

  test("changes a running call to another version and replaces its token", async () => {
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
    const [first, second] = [ids.next("key"), ids.next("key")];
    await invocations.open(row, { delegation: token(first), records: {} });
    const next = {
      ...row,
      binding_id: "bind_before",
      package_version: "0.0.9",
      retry_count: 1,
      fallback_from: {
        binding_id: row.binding_id,
        binding_generation: row.binding_generation,
        package_version: row.package_version,
        package_digest: row.package_digest,
        error: { code: "crashed", message: "It crashed." },
        stderr_tail: null,
      },
    };
    expect(await invocations.recordFallback({ ...next, fence: 2 }, { delegation: token(second) })).toBe(
      false,
    );
    expect(await invocations.get(scope, row.id)).toEqual(row);
    expect(await delegations.findByHash(first)).toEqual(token(first));
    expect(await invocations.recordFallback(next, { delegation: token(second) })).toBe(true);
    expect(await invocations.get(scope, row.id)).toEqual(next);
    expect(await delegations.findByHash(first)).toBeNull();
    expect(await delegations.findByHash(second)).toEqual(token(second));
    const { items } = await invocations.list(scope, { binding_id: "bind_before" }, { limit: 5 });
    expect(items).toMatchObject([{ id: row.id, fallback_from: { error: { code: "crashed" } } }]);
    await invocations.settle(row.id, row.fence, sampleSettlement(), {});
    expect(await invocations.recordFallback({ ...next, package_version: "9.9.9" }, {})).toBe(false);
    expect((await invocations.get(scope, row.id))?.package_version).toBe("0.0.9");
  });

  test("stores the depth of a call, which the public list omits", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({ ...scope, depth: 3 });
    await store().invocations.open(row, { records: {} });
    expect(await store().invocations.get(scope, row.id)).toEqual(row);
    expect((await store().invocations.list(scope, {}, { limit: 1 })).items[0]).not.toHaveProperty("depth");
  });
}
