/** Tokens that are no longer stored are revoked at the authorization server, without delaying a removal. */
import { readStoredSignIn } from "@backplane/registry";
import { admin, type TestKernel, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { callReadTool, createSignInKernel, SERVER, signIn, startLogin } from "./sign-in-kernel.ts";

test("stays signed out and revokes the tokens when the sign-out happens during the code exchange", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  await signIn(fixture, as, binding_id);
  const { redirect, browser } = await startLogin(fixture, as, binding_id);
  as.token_delay_ms = 300;
  const issued_count = as.issued_secrets.length;
  const completing = signIns.complete(browser, redirect);
  completing.catch(() => undefined);
  await until(async () => (await signIns.get(admin, binding_id)).login?.status === "taken");
  await signIns.end(admin, binding_id);
  await expect(completing).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(await signIns.get(admin, binding_id)).toMatchObject({ status: "signed_out" });
  const new_tokens = as.issued_secrets.slice(issued_count);
  expect(new_tokens.map((token) => token.split("-")[0])).toEqual(["access", "refresh"]);
  expect(as.revoked.slice(-2).sort()).toEqual(new_tokens.sort());
});

/** The tokens of the current sign-in. */
async function readTokens(fixture: TestKernel, binding_id: string): Promise<string[]> {
  const { access_token, refresh_token } = (await readStoredSignIn(fixture.deps, "org_local", binding_id))!
    .record.session!;
  return [access_token, refresh_token!].sort();
}

test("revokes both tokens on removal of the binding and on sign-out", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const first = await readTokens(fixture, binding_id);
  await fixture.kernel.signIns.end(admin, binding_id);
  await until(() => as.revoked.length === 2);
  expect([...as.revoked].sort()).toEqual(first);
  await signIn(fixture, as, binding_id);
  const second = await readTokens(fixture, binding_id);
  await fixture.kernel.bindings.remove(admin, binding_id);
  await until(() => as.revoked.length === 4);
  expect(as.revoked.slice(2).sort()).toEqual(second);
  expect(fixture.logged.filter(({ level }) => level === "warn")).toEqual([]);
});

test("removes the binding without waiting for the authorization server, and logs a failed revocation", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  const { binding_id: other } = await fixture.bind(SERVER, { org_wide: true });
  for (const id of [binding_id, other]) await signIn(fixture, as, id);
  const secrets = [...(await readTokens(fixture, binding_id)), ...(await readTokens(fixture, other))];
  const release = Promise.withResolvers<void>();
  runner.responses_after = release.promise;
  as.revoke_status = 503;
  const fetched_count = runner.fetched.length;
  await fixture.kernel.signIns.end(admin, other);
  await fixture.kernel.bindings.remove(admin, binding_id);
  for (const id of [binding_id, other])
    expect(await readStoredSignIn(fixture.deps, "org_local", id)).toBeNull();
  await until(() => runner.fetched.filter(({ url }) => url.endsWith("/revoke")).length === 4);
  for (const { url, timeout_ms } of runner.fetched.slice(fetched_count))
    if (url.endsWith("/revoke")) expect(timeout_ms).toBe(5_000);
  release.resolve();
  const failures = () => fixture.logged.filter(({ message }) => message.includes("could not be revoked"));
  await until(() => failures().length === 4);
  const text = JSON.stringify(failures(), (_key, value) => (value instanceof Error ? value.message : value));
  expect(text).toContain("HTTP 503");
  expect(secrets.filter((secret) => text.includes(secret))).toEqual([]);
});

test("removes a sign-in that cannot be decrypted", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const row = (await fixture.deps.store.sign_ins.get("org_local", binding_id))!;
  const undecryptable = { ...row, revision: row.revision + 1, ciphertext: "v1.lost.AAAA" };
  await fixture.deps.store.sign_ins.put("org_local", binding_id, undecryptable, {});
  await fixture.kernel.signIns.end(admin, binding_id);
  expect(await fixture.deps.store.sign_ins.get("org_local", binding_id)).toBeNull();
  await fixture.deps.store.sign_ins.put("org_local", binding_id, { ...undecryptable, revision: 1 }, {});
  await fixture.kernel.bindings.remove(admin, binding_id);
  expect(await fixture.deps.store.sign_ins.get("org_local", binding_id)).toBeNull();
});

test("revokes the tokens of a renewal that ends after the sign-out", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const arrived = Promise.withResolvers<void>();
  runner.token_responses_after = arrived.promise;
  fixture.clock.wall_offset = 3_600_000 - 20_000;
  expect((await callReadTool(fixture)).status).toBe("succeeded");
  await until(() => as.token_requests.length === 2);
  await fixture.kernel.bindings.remove(admin, binding_id);
  await until(() => as.revoked.length === 2);
  arrived.resolve();
  await until(() => as.revoked.length === 4);
  expect([...as.revoked].sort()).toEqual(
    as.issued_secrets.filter((text) => /^(access|refresh)-/.test(text)).sort(),
  );
});

test("finishes revocations before the gateway stops", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  runner.responses_after = new Promise((done) => setTimeout(done, 200));
  await fixture.kernel.bindings.remove(admin, binding_id);
  await fixture.kernel.stop(1_000);
  expect(as.revoked).toHaveLength(2);
});
