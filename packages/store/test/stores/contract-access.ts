import { IDEMPOTENCY_TTL_MS } from "@backplane/contract";
import { expect, test } from "vitest";
import { ids, NOW, sampleAudit, sampleBinding, sampleKey, samplePackage } from "../support/samples.ts";
import { freshOrg, type Subject } from "../support/subject.ts";

export function accessCases(subject: () => Subject): void {
  const store = () => subject().store;

  test("versions a secret, lists its bindings and refuses to remove it while it is used", async () => {
    const scope = freshOrg();
    const { org_id } = scope;
    const org_scope = { org_id, project_id: null };
    const sealed = { org_id, name: "jira_token", ciphertext: "v1.k.n.c", last4: "wxyz" };
    const later = "2026-11-01T11:00:00.000Z";
    const first = await store().secrets.put(sealed, NOW, {});
    expect(first).toEqual({
      name: "jira_token",
      org_id,
      project_id: null,
      ref: `secret://${org_id}/jira_token`,
      last4: "wxyz",
      version: 1,
      used_by: [],
      created_at: NOW,
      updated_at: NOW,
    });
    const second = await store().secrets.put({ ...sealed, ciphertext: "v1.k.n.d" }, later, {});
    expect(second).toEqual({ ...first, version: 2, updated_at: later });
    expect(await store().secrets.getSealed(org_id, "jira_token")).toEqual({
      ...sealed,
      ciphertext: "v1.k.n.d",
    });
    expect(await store().secrets.get("org_other", "jira_token")).toBeNull();

    await store().packages.insert(samplePackage({ org_id }), {});
    const binding = sampleBinding({ scope, secrets: { token: first.ref, second: first.ref } });
    await store().bindings.create(binding, {});
    expect(await store().bindings.findBySecret(org_id, first.ref)).toEqual([binding.binding_id]);
    expect((await store().secrets.get(org_id, "jira_token"))?.used_by).toEqual([binding.binding_id]);
    await expect(store().secrets.remove(org_scope, "jira_token", {})).rejects.toMatchObject({
      code: "secret.in_use",
      details: { used_by: [binding.binding_id] },
    });
    await store().bindings.update({ ...binding, secrets: {}, generation: 2 }, 1, {});
    expect(await store().secrets.remove(org_scope, "jira_token", {})).toBe(true);
    expect(await store().secrets.remove(org_scope, "jira_token", {})).toBe(false);
    expect(await store().secrets.list(org_scope, { limit: 5 })).toEqual({ items: [], next: null });
  });

  test("lists secrets by name", async () => {
    const { org_id } = freshOrg();
    const org_scope = { org_id, project_id: null };
    for (const name of ["b", "a", "c"]) {
      await store().secrets.put({ org_id, name, ciphertext: "x", last4: "****" }, NOW, {});
    }
    const first = await store().secrets.list(org_scope, { limit: 2 });
    expect(first.items.map((secret) => secret.name)).toEqual(["a", "b"]);
    const rest = await store().secrets.list(org_scope, { limit: 2, after: first.next! });
    expect(rest.items.map((secret) => secret.name)).toEqual(["c"]);
  });

  test("lets a project change only its own secrets and read its own and the org's", async () => {
    const { org_id } = freshOrg();
    const scopeOf = (project_id: string | null) => ({ org_id, project_id });
    const put = (project_id: string | null, name: string) =>
      store().secrets.put({ org_id, project_id, name, ciphertext: "x", last4: "****" }, NOW, {});
    const listNamesIn = async (project_id: string | null) =>
      (await store().secrets.list(scopeOf(project_id), { limit: 9 })).items.map(({ name }) => name);
    await put(null, "shared");
    expect((await put("proj_a", "mine")).project_id).toBe("proj_a");
    await put("proj_b", "theirs");
    for (const name of ["shared", "theirs"]) {
      await expect(put("proj_a", name)).rejects.toMatchObject({ code: "policy.denied" });
      await expect(store().secrets.remove(scopeOf("proj_a"), name, {})).rejects.toMatchObject({
        code: "policy.denied",
      });
      expect((await store().secrets.get(org_id, name))?.version).toBe(1);
    }
    expect((await put("proj_a", "mine")).version).toBe(2);
    // The org may replace a secret of a project, which still belongs to the project.
    expect(await put(null, "mine")).toMatchObject({ version: 3, project_id: "proj_a" });
    expect(await listNamesIn("proj_a")).toEqual(["mine", "shared"]);
    expect(await listNamesIn(null)).toEqual(["mine", "shared", "theirs"]);
    expect(await store().secrets.remove(scopeOf("proj_a"), "nothing", {})).toBe(false);
    expect(await store().secrets.remove(scopeOf("proj_a"), "mine", {})).toBe(true);
    expect(await store().secrets.remove(scopeOf(null), "theirs", {})).toBe(true);
  });

  test("finds a key by its hash before and after it is revoked", async () => {
    const scope = freshOrg();
    const key = sampleKey(scope);
    const hash = ids.next("request");
    expect(await store().keys.findByHash(hash)).toBeNull();
    await store().keys.create(key, hash, {});
    expect(await store().keys.findByHash(hash)).toEqual(key);
    expect(await store().keys.get(scope.org_id, key.id)).toEqual(key);
    expect(await store().keys.get(freshOrg().org_id, key.id)).toBeNull();
    const org_key = sampleKey({ ...scope, project_id: null });
    await store().keys.create(org_key, ids.next("request"), {});
    expect((await store().keys.list(scope, { limit: 5 })).items).toEqual([key]);
    expect((await store().keys.list({ ...scope, project_id: null }, { limit: 5 })).items).toEqual([
      org_key,
      key,
    ]);
    expect(await store().keys.revoke({ ...scope, project_id: "proj_other" }, key.id, NOW, {})).toBe(false);
    expect(await store().keys.revoke(scope, key.id, NOW, {})).toBe(true);
    expect(await store().keys.revoke(scope, key.id, NOW, {})).toBe(false);
    expect(await store().keys.findByHash(hash)).toEqual({ ...key, revoked_at: NOW });
  });

  test("claims an idempotency key once, returns its response, and frees it when stale or expired", async () => {
    const scope = freshOrg();
    const begin = (digest: string, now: number) => store().idempotency.begin(scope, "k", digest, now, 1_000);
    const states = await Promise.all(Array.from({ length: 10 }, () => begin("d1", 100)));
    expect(states.map((state) => state.state).sort()).toEqual([...Array(9).fill("in_progress"), "new"]);
    expect(await begin("d2", 200)).toEqual({ state: "conflict" });
    await store().idempotency.finish(scope, "k", 201, "body", 250);
    expect(await begin("d1", 300)).toEqual({ state: "done", status: 201, body: "body" });
    expect(await begin("d2", 300)).toEqual({ state: "conflict" });
    expect(await store().idempotency.begin(freshOrg(), "k", "d2", 300, 1_000)).toEqual({ state: "new" });
    await store().idempotency.abandon(scope, "k");
    expect(await begin("d1", 300)).toMatchObject({ state: "done" });
    expect(await begin("d2", 250 + IDEMPOTENCY_TTL_MS)).toEqual({ state: "new" });
    expect(await begin("d3", 1_250 + IDEMPOTENCY_TTL_MS)).toEqual({ state: "new" });
    await store().idempotency.abandon(scope, "k");
    expect(await begin("d4", 1_251 + IDEMPOTENCY_TTL_MS)).toEqual({ state: "new" });
    await store().idempotency.finish(scope, "k", 200, "", 2_000);
    // Sweeps the key of the other org.
    expect(await store().idempotency.sweep(1_999 + IDEMPOTENCY_TTL_MS)).toBe(1);
    expect(await store().idempotency.sweep(2_000 + IDEMPOTENCY_TTL_MS)).toBe(1);
    expect(await begin("d5", 8_000)).toEqual({ state: "new" });
  });

  test("verifies the audit chain in steps from a given position, and notifies listeners", async () => {
    const { audit } = store();
    const from = await audit.head();
    let notified = 0;
    const unsubscribe = audit.onAppended(() => notified++);
    for (const n of [1, 2, 3]) await audit.append(sampleAudit({ scope: freshOrg(), details: { n } }));
    await expect.poll(() => notified).toBeGreaterThan(0);
    unsubscribe();
    const head = await audit.head();
    expect(head.seq).toBe(from.seq + 3);
    expect(await audit.hashAt(head.seq)).toBe(head.hash);
    expect(await audit.hashAt(head.seq + 1)).toBeNull();
    const two_steps = await audit.verifyStep(from, 2);
    expect(two_steps).toMatchObject({ broken: null, reached: { seq: from.seq + 2 } });
    expect(await audit.verifyStep(two_steps.reached, 100)).toEqual({ broken: null, reached: head });
    expect(await audit.verifyStep(head, 100)).toMatchObject({ broken: { seq: head.seq + 1, gone: true } });
    expect(await audit.verifyStep({ ...two_steps.reached, hash: "x" }, 1)).toMatchObject({
      broken: { seq: head.seq, gone: false },
    });
    expect((await audit.after(from.seq, 2)).map(({ details }) => details.n)).toEqual([1, 2]);
  });

  test("keeps the audit chain serial with concurrent writers, and detects a changed byte", async () => {
    const scope = freshOrg();
    const other = { ...scope, project_id: "proj_other" };
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        store().audit.append(
          sampleAudit({
            scope: n % 2 === 0 ? scope : other,
            action: `a.${n % 4}`,
            details: { n, b: 1, a: 2 },
          }),
        ),
      ),
    );
    expect(await store().audit.verify()).toBeNull();
    const page = await store().audit.list(scope, {}, { limit: 15 });
    expect(page.items).toHaveLength(15);
    expect(page.items.every((entry) => entry.project_id === "proj_default" && entry.at === NOW)).toBe(true);
    expect((await store().audit.list(scope, {}, { limit: 15, after: page.next! })).items).toHaveLength(5);
    expect(
      (await store().audit.list({ ...scope, project_id: null }, { action: "a.1" }, { limit: 50 })).items,
    ).toHaveLength(10);

    const changed_entry = page.items[7]!;
    const change = async (set: string, back: string) => {
      await subject().tamper(`update audit set ${set} where seq = ${changed_entry.seq}`);
      const verification = await store().audit.verify();
      await subject().tamper(`update audit set ${back} where seq = ${changed_entry.seq}`);
      return verification;
    };
    expect(await change("actor = 'Admin'", "actor = 'admin'")).toBe(changed_entry.seq);
    expect(await change("project_id = ''", "project_id = 'proj_default'")).toBe(changed_entry.seq);
    expect(
      await change("details = replace(details, '1', '2')", `details = '${canonical(changed_entry.details)}'`),
    ).toBe(changed_entry.seq);
    expect(await store().audit.verify()).toBeNull();
  });

  test("detects an entry that was removed from the end of the audit chain", async () => {
    await store().audit.append(sampleAudit());
    const last = (await store().audit.list({ org_id: "org_local", project_id: null }, {}, { limit: 1 }))
      .items[0]!;
    await subject().tamper(`create table removed_entry as select * from audit where seq = ${last.seq}`);
    await subject().tamper(`delete from audit where seq = ${last.seq}`);
    expect(await store().audit.verify()).toBe(last.seq);
    await subject().tamper("insert into audit select * from removed_entry");
    await subject().tamper("drop table removed_entry");
    expect(await store().audit.verify()).toBeNull();
  });
}

function canonical(details: Record<string, unknown>): string {
  const keys = Object.keys(details).sort();
  return JSON.stringify(Object.fromEntries(keys.map((key) => [key, details[key]])));
}
