/**
 * Sign-ins in the kernel against a real authorization server: who may start, see and end a sign-in, which callers and
 * browsers may complete a login, which client is used, and how tokens are stored and used.
 */
import { readStoredSignIn } from "@backplane/registry";
import { createSecretVault } from "@backplane/store";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { rotateKey } from "../../../registry/src/secrets/rotate-key.ts";
import {
  buildServerManifest,
  callReadTool,
  createAuthorizationServer,
  createOutcome,
  createSignInKernel,
  createSignInRunner,
  readTicket,
  SERVER,
  signIn,
  startLogin,
} from "./sign-in-kernel.ts";

test("allows only an admin to start and end a sign-in, and shows its status to readers of the binding", async () => {
  const { fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  for (const caller of [user, guest]) {
    await expect(signIns.begin(caller, binding_id, {})).rejects.toMatchObject({ code: "policy.denied" });
    await expect(signIns.end(caller, binding_id)).rejects.toMatchObject({ code: "policy.denied" });
    expect(await signIns.get(caller, binding_id)).toMatchObject({ status: "signed_out" });
  }
  const other_org_admin = { ...admin, scope: { org_id: "org_other", project_id: null } };
  await expect(signIns.get(other_org_admin, binding_id)).rejects.toMatchObject({ code: "binding.not_found" });
  const local = manifest([], { runtime: { protocol: "mcp.stdio", entrypoint: ["node", "s.js"] } });
  const { binding_id: local_binding_id } = await fixture.bind(local);
  await expect(signIns.begin(admin, local_binding_id, {})).rejects.toMatchObject({ code: "request.invalid" });
});

test("limits requests in size and time, and to the domains of the host policy", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  expect(runner.fetched.length).toBeGreaterThan(3);
  for (const { allowed_domains, max_response_bytes, timeout_ms } of runner.fetched) {
    expect({ allowed_domains, max_response_bytes, timeout_ms }).toEqual({
      allowed_domains: ["*"],
      max_response_bytes: 256 * 1024,
      timeout_ms: 15_000,
    });
  }
  const offline_runner = createSignInRunner(as);
  const offline = await createTestKernel({ runner: offline_runner, host: { network: "none" } });
  const bound = await offline.bind(SERVER);
  await offline.kernel.signIns.begin(admin, bound.binding_id, {});
  expect(offline_runner.fetched[0]!.allowed_domains).toEqual([]);
});

test("expires a login after ten minutes, or when a newer one begins", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  const { redirect, browser, expires_at } = await startLogin(fixture, as, binding_id);
  expect(Date.parse(expires_at) - fixture.clock.now()).toBeGreaterThan(590_000);
  fixture.clock.wall_offset = 10 * 60_000;
  await expect(signIns.complete(browser, redirect)).rejects.toMatchObject({ code: "sign_in.expired" });
  fixture.clock.wall_offset = 0;
  await signIns.begin(admin, binding_id, {});
  await expect(signIns.complete(browser, redirect)).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(as.token_requests).toEqual([]);
});

test("refuses a sign-in for a binding with its own credential", async () => {
  const as = await createAuthorizationServer();
  const runner = createSignInRunner(as);
  const fixture = await createTestKernel({ runner });
  await fixture.kernel.secrets.put(admin, "fixed", "a-fixed-token-of-the-operator");
  const secrets = { authorization: "secret://org_local/fixed" };
  const { binding_id } = await fixture.bind(buildServerManifest(["authorization"]), { secrets });
  await expect(fixture.kernel.signIns.begin(admin, binding_id, {})).rejects.toMatchObject({
    code: "request.invalid",
  });
  runner.script = ({ request }) => createOutcome(as, request.context.secrets.authorization);
  const done = await callReadTool(fixture);
  expect(done.error).toMatchObject({ code: "plugin_failed" });
  expect(done.error!.message).toContain("rejected the credential of its binding");
});

test("seals sign-ins again under a new master key", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const vault = createSecretVault([
    { id: "k2", key: new Uint8Array(32).fill(9) },
    { id: "k1", key: new Uint8Array(32).fill(7) },
  ]);
  const rotated = await rotateKey({ ...fixture.deps, vault }, admin, { new_key: false });
  expect(rotated).toMatchObject({ sign_ins: 1, unreadable: [], unused_keys: ["k1"] });
  const { row, record } = (await readStoredSignIn({ ...fixture.deps, vault }, "org_local", binding_id))!;
  expect(row.ciphertext).toMatch(/^v1\.k2\./);
  expect(record.session?.signed_in_by).toBe("admin");
});

test("serves the client metadata document at the public address and uses its URL as client_id", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  expect(fixture.kernel.signIns.buildClientDocument()).toBeNull();
  fixture.deps.gateway.public_url = "https://gateway.example";
  as.metadata.client_id_metadata_document_supported = true;
  const { authorization_url } = await fixture.kernel.signIns.begin(admin, binding_id, {});
  const parameters = new URL(authorization_url!).searchParams;
  expect(parameters.get("client_id")).toBe("https://gateway.example/client-metadata.json");
  expect(parameters.get("redirect_uri")).toBe("https://gateway.example/oauth/callback");
  expect(fixture.kernel.signIns.buildClientDocument()).toMatchObject({
    client_id: parameters.get("client_id"),
    redirect_uris: [parameters.get("redirect_uri")],
    application_type: "web",
  });
  expect(as.registrations).toEqual([]);
});

test("accepts a redirect once, from the caller who started the login, with the right issuer and a code", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  const begin = async () => await as.visit((await signIns.begin(admin, binding_id, {})).authorization_url!);
  const redirect = await begin();
  const other_admin = { ...admin, actor: "key_other" };
  await expect(signIns.complete(other_admin, redirect)).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(await signIns.complete(admin, redirect)).toMatchObject({
    status: "signed_in",
    login: { status: "done" },
  });
  await expect(signIns.complete(admin, redirect)).rejects.toMatchObject({ code: "sign_in.expired" });
  for (const change of [
    (url: URL) => url.searchParams.delete("iss"),
    (url: URL) => url.searchParams.set("iss", `${as.issuer}/`),
    (url: URL) => url.searchParams.set("error", "access_denied"),
    (url: URL) => url.searchParams.delete("code"),
  ]) {
    const changed_redirect = new URL(await begin());
    change(changed_redirect);
    await expect(signIns.complete(admin, changed_redirect.href)).rejects.toMatchObject({
      code: "sign_in.failed",
    });
    expect(await signIns.get(user, binding_id)).toMatchObject({
      status: "signed_in",
      login: { status: "failed" },
    });
  }
  expect(as.token_requests).toHaveLength(1);
});

test("does not use the token after a new package version changes the server's address", async () => {
  const { as, runner, fixture, binding_id } = await createSignInKernel();
  await signIn(fixture, as, binding_id);
  const changed_package = { ...SERVER, version: "0.2.0" };
  changed_package.runtime = { ...SERVER.runtime, entrypoint: ["http://127.0.0.1:2/mcp"] };
  await fixture.kernel.packages.install(admin, fixture.importer.add(changed_package));
  await fixture.kernel.bindings.patch(admin, binding_id, { package_version: "0.2.0" }, undefined);
  runner.requests.length = 0;
  expect(await callReadTool(fixture)).toMatchObject({ error: { code: "sign_in.needed" } });
  expect(runner.requests.map(({ context }) => context.secrets)).toEqual([{}]);
  expect(runner.describe_requests.at(-1)!.context.secrets).toEqual({});
});

test("binds a login to the first browser and refuses others without ending the login", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  const { start_url, redirect_uri } = await signIns.begin(admin, binding_id, {});
  expect(new URL(start_url!).origin).toBe(new URL(redirect_uri!).origin);
  const ticket = readTicket(start_url);
  const first = await signIns.open(ticket, { browser_secrets: ["of-another-login"] });
  const cookies = { browser_secrets: ["of-another-login", first.secret!] };
  expect(first).toMatchObject({ secure: false });
  expect(first.lasts_ms).toBeGreaterThan(590_000);
  // The same browser may reload the page; a thief of the URL is refused.
  expect(await signIns.open(ticket, cookies)).toMatchObject({
    authorization_url: first.authorization_url,
    secret: null,
  });
  const refused = { code: "sign_in.other_browser" };
  for (const browser_secrets of [[], ["of-another-login"]])
    await expect(signIns.open(ticket, { browser_secrets })).rejects.toMatchObject(refused);
  const redirect = await as.visit(first.authorization_url);
  for (const browser_secrets of [[], ["of-another-login"]])
    await expect(signIns.complete({ browser_secrets }, redirect)).rejects.toMatchObject(refused);
  expect(as.token_requests).toEqual([]);
  expect(fixture.logged.filter(({ message }) => message.includes("another browser"))).toHaveLength(4);
  expect(await signIns.complete(cookies, redirect)).toMatchObject({ status: "signed_in" });
  await expect(signIns.open(ticket, cookies)).rejects.toMatchObject({ code: "sign_in.expired" });
});

test("accepts a login that skipped the start page only from the caller who started it, not from a browser", async () => {
  const { as, fixture, binding_id } = await createSignInKernel();
  const { signIns } = fixture.kernel;
  const { authorization_url } = await signIns.begin(admin, binding_id, {});
  const redirect = await as.visit(authorization_url!);
  const { state } = Object.fromEntries(new URL(redirect).searchParams);
  await expect(signIns.open(state!, { browser_secrets: [] })).rejects.toMatchObject({
    code: "sign_in.expired",
  });
  await expect(signIns.complete({ browser_secrets: [state!] }, redirect)).rejects.toMatchObject({
    code: "sign_in.other_browser",
  });
  expect(await signIns.complete(admin, redirect)).toMatchObject({ status: "signed_in" });
});

test("marks the login cookie secure behind TLS", async () => {
  const { fixture, binding_id } = await createSignInKernel();
  fixture.deps.gateway.public_url = "https://gateway.example";
  const { start_url } = await fixture.kernel.signIns.begin(admin, binding_id, {});
  expect(start_url).toMatch(/^https:\/\/gateway\.example\/oauth\/start\?ticket=/);
  expect(await fixture.kernel.signIns.open(readTicket(start_url), { browser_secrets: [] })).toMatchObject({
    secure: true,
  });
});
