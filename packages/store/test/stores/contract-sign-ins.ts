import type { Login, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { sampleAudit, sampleBinding, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function signInCases(store: () => Store): void {
  async function createBinding() {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const binding = sampleBinding({ scope });
    await store().bindings.create(binding, {});
    return { scope, org_id: scope.org_id, binding_id: binding.binding_id };
  }

  const row = (revision: number, ciphertext = `v1.k1.${revision}`, renewing_until = 0) => ({
    revision,
    renewing_until,
    ciphertext,
  });

  test("accepts only the next revision of a sign-in, and removes the sign-in with its binding", async () => {
    const { sign_ins, audit, bindings } = store();
    const { scope, org_id, binding_id } = await createBinding();
    expect(await sign_ins.put(org_id, "bind_other", row(1), {})).toBe(false);
    expect(await sign_ins.get(org_id, binding_id)).toBeNull();
    expect(await sign_ins.put(org_id, binding_id, row(1), {})).toBe(true);
    expect(await sign_ins.put(org_id, binding_id, row(1), {})).toBe(false);
    expect(await sign_ins.put(org_id, binding_id, row(3), {})).toBe(false);
    const records = { audit: sampleAudit({ scope, action: "sign_in.done" }) };
    expect(await sign_ins.put(org_id, binding_id, row(2, "v1.k1.two", 4_000_000_000_000), records)).toBe(
      true,
    );
    expect(await sign_ins.get(org_id, binding_id)).toEqual(row(2, "v1.k1.two", 4_000_000_000_000));
    expect(await sign_ins.get("org_other", binding_id)).toBeNull();
    expect((await audit.list(scope, { action: "sign_in.done" }, { limit: 5 })).items).toHaveLength(1);
    await bindings.remove(scope, binding_id, {});
    expect(await sign_ins.get(org_id, binding_id)).toBeNull();
  });

  test("accepts one of several concurrent writes of the same revision", async () => {
    const { sign_ins } = store();
    const { org_id, binding_id } = await createBinding();
    await sign_ins.put(org_id, binding_id, row(1), {});
    const attempts = Array.from({ length: 8 }, (_, n) =>
      sign_ins.put(org_id, binding_id, row(2, `v1.k1.${n}`), {}),
    );
    expect((await Promise.all(attempts)).filter(Boolean)).toHaveLength(1);
  });

  test("takes a login once before it expires, and replaces a login with a newer one", async () => {
    const { sign_ins } = store();
    const { org_id, binding_id } = await createBinding();
    const login = (state: string): Login => ({
      org_id,
      binding_id,
      state_hash: `${binding_id}-${state}`,
      start_hash: `${binding_id}-${state}-start`,
      browser_hash: null,
      actor: "admin",
      expires_at: 1_000,
      ciphertext: `v1.k1.${state}`,
    });
    expect(await sign_ins.beginLogin({ ...login("a"), binding_id: "bind_other" }, {})).toBe(false);
    expect(await sign_ins.beginLogin(login("a"), {})).toBe(true);
    expect(await sign_ins.beginLogin(login("b"), {})).toBe(true);
    const { state_hash: a } = login("a");
    const { state_hash: b } = login("b");
    expect(await sign_ins.takeLogin(a, 0), "replaced").toBeNull();
    expect(await sign_ins.takeLogin(b, 1_000), "expired").toBeNull();
    expect(await sign_ins.getPendingLogin(b, 999)).toEqual(login("b"));
    expect(await sign_ins.openLogin(login("a").start_hash, "first", 0), "replaced").toBeNull();
    expect(await sign_ins.openLogin(login("b").start_hash, "first", 1_000), "expired").toBeNull();
    expect(await sign_ins.getLoginState(org_id, binding_id)).toEqual({
      status: "pending",
      message: null,
      actor: "admin",
      expires_at: 1_000,
    });
    const results = await Promise.all(Array.from({ length: 8 }, () => sign_ins.takeLogin(b, 0)));
    expect(results.filter((login) => login !== null)).toEqual([login("b")]);
    expect(await sign_ins.getPendingLogin(b, 0)).toBeNull();
    await sign_ins.endLogin(b, "failed", "no");
    expect(await sign_ins.getLoginState(org_id, binding_id)).toMatchObject({
      status: "failed",
      message: "no",
    });
    await sign_ins.endLogin(b, "done", null);
    expect(await sign_ins.getLoginState(org_id, binding_id), "the first result is kept").toMatchObject({
      status: "failed",
    });
    await sign_ins.put(org_id, binding_id, row(1), {});
    expect(await sign_ins.remove(org_id, binding_id, {})).toBe(true);
    expect(await sign_ins.remove(org_id, binding_id, {})).toBe(false);
    expect(await sign_ins.getLoginState(org_id, binding_id)).toBeNull();
  });

  test("binds a login to the first browser that opens it, until it is replaced", async () => {
    const { sign_ins } = store();
    const { org_id, binding_id } = await createBinding();
    const login = (state: string) => ({
      org_id,
      binding_id,
      state_hash: `${binding_id}-${state}`,
      start_hash: `${binding_id}-${state}-start`,
      actor: "admin",
      expires_at: 1_000,
      ciphertext: `v1.k1.${state}`,
    });
    await sign_ins.beginLogin(login("a"), {});
    const start = login("a").start_hash;
    const opened = await Promise.all(
      Array.from({ length: 8 }, (_, n) => sign_ins.openLogin(start, `b${n}`, 0)),
    );
    const [browser_hash] = new Set(opened.map((opened_login) => opened_login!.browser_hash));
    expect(browser_hash).toMatch(/^b\d$/);
    expect(opened).toEqual(Array(8).fill({ ...login("a"), browser_hash }));
    expect(await sign_ins.getPendingLogin(login("a").state_hash, 0)).toEqual({ ...login("a"), browser_hash });
    await sign_ins.beginLogin(login("b"), {});
    expect(await sign_ins.getPendingLogin(login("b").state_hash, 0)).toEqual({
      ...login("b"),
      browser_hash: null,
    });
    expect((await sign_ins.openLogin(login("b").start_hash, "other", 0))?.browser_hash).toBe("other");
    expect(await sign_ins.takeLogin(login("b").state_hash, 0)).toMatchObject({ browser_hash: "other" });
    expect(await sign_ins.openLogin(login("b").start_hash, "other", 0), "taken").toBeNull();
  });

  test("lists sign-ins sealed with another key and replaces only unchanged ones", async () => {
    const { sign_ins, sealed } = store();
    const { org_id, binding_id } = await createBinding();
    await sign_ins.put(org_id, binding_id, row(1, "v1.old.text"), {});
    const position = { org_id, name: "" };
    const sealed_rows = await sealed.list("sign_in", "v1.new.", position, 1);
    expect(sealed_rows).toEqual([{ kind: "sign_in", org_id, name: binding_id, ciphertext: "v1.old.text" }]);
    expect(await sealed.replace([{ row: sealed_rows[0]!, ciphertext: "v1.new.text" }])).toBe(1);
    expect(await sign_ins.get(org_id, binding_id)).toEqual(row(1, "v1.new.text"));
    expect(await sealed.replace([{ row: sealed_rows[0]!, ciphertext: "v1.new.again" }])).toBe(0);
  });
}
