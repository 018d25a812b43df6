/** Sign-ins in the kernel, at a real authorization server: whose they are, how long they hold, and one renewal for all. */
import { hash } from "node:crypto";
import { ToolExportSchema } from "@backplane/contract/schema";
import { createSecretVault, openPostgresStore } from "@backplane/store";
import { expect, onTestFinished, test } from "vitest";
import { type AuthorizationServer, startAuthorizationServer } from "../../../../test/support/oauth-server.ts";
import { startPostgres } from "../../../../test/support/postgres.ts";
import type { HostRequest, RunOutcome, ServerChallenge } from "../../src/ports/index.ts";
import { rotateKey } from "../../src/secrets/rotate-key.ts";
import { readSignIn } from "../../src/sign-ins/sign-in-record.ts";
import { admin, furnish, guest, type House, openHouse, until, user } from "../support/house.ts";
import { manifest } from "../support/manifests.ts";
import { ended, ok, ScriptedRunner } from "../support/scripted-runner.ts";

const URL_OF_SERVER = "http://127.0.0.1:1/mcp";
const serverWith = (secret_slots: string[]) =>
  manifest([], {
    package_id: "acme/notes",
    runtime: {
      protocol: "mcp.http",
      transport: "http",
      entrypoint: [URL_OF_SERVER],
      permissions: { network: "egress", allowed_domains: ["*"], secret_slots },
    },
  });
const SERVER = serverWith([]);
const TOOL = ToolExportSchema.parse({
  id: "mcp_notes_read",
  kind: "tool",
  permissions: SERVER.runtime.permissions,
  tool: { effect_class: "non_idempotent_write", native_name: "read" },
});

/** Really asks, but for the server's own metadata: there is no server. */
function runnerAt(as: AuthorizationServer): ScriptedRunner & {
  fetched: HostRequest[];
  away: boolean;
  hangs: Promise<void> | null;
  late: Promise<void> | null;
} {
  const fetched: HostRequest[] = [];
  const runner = Object.assign(new ScriptedRunner(), {
    fetched,
    away: false,
    /** Nothing is answered before this is. */
    hangs: null as Promise<void> | null,
    /** What the token endpoint has answered arrives after this. */
    late: null as Promise<void> | null,
    async fetch(request: HostRequest) {
      fetched.push(request);
      await runner.hangs;
      if (runner.away) return { status: 503, headers: {}, body: "", encoding: "utf8" as const };
      if (request.url.startsWith("http://127.0.0.1:1/")) {
        const metadata = {
          resource: URL_OF_SERVER,
          authorization_servers: [as.issuer],
          scopes_supported: ["notes"],
        };
        const body = JSON.stringify(metadata);
        return { status: 200, headers: {}, body, encoding: "utf8" as const };
      }
      const answer = await fetch(request.url, {
        method: request.method,
        headers: request.headers,
        body: request.body,
        redirect: "manual",
      });
      const body = await answer.text();
      if (request.url.endsWith("/token")) await runner.late;
      return { status: answer.status, headers: {}, body, encoding: "utf8" as const };
    },
  });
  runner.description = () => ({ exports: [TOOL], schemas: {}, warnings: [], info: {} });
  runner.script = ({ order }) => serve(as, order.context.secrets.authorization);
  return runner;
}

/** What the runner brings back from a server that asks this authorization server. */
function serve(as: AuthorizationServer, token: string | undefined, needs = "notes"): RunOutcome {
  const held = as.holds(token ?? "", URL_OF_SERVER);
  if (held === null) return refusal(401, "invalid_token", needs, token);
  return held.scope.split(" ").includes(needs) ? ok() : refusal(403, "insufficient_scope", needs, token);
}

function refusal(status: 401 | 403, error: string, scope: string, token: string | undefined): RunOutcome {
  const shown = token === undefined ? null : hash("sha256", `Bearer ${token}`, "hex");
  const challenge: ServerChallenge = { status, error, scope, resource_metadata: null, shown };
  return ended("failed", "sign_in.needed", {
    error: { code: "sign_in.needed", message: "no", details: { challenge: { ...challenge } } },
  });
}

async function authorizationServer(): Promise<AuthorizationServer> {
  const as = await startAuthorizationServer();
  onTestFinished(() => as.close());
  return as;
}

async function open() {
  const as = await authorizationServer();
  const runner = runnerAt(as);
  const house = await openHouse({ runner });
  const { binding_id } = await house.bind(SERVER);
  return { as, runner, house, binding_id };
}

const ticketOf = (start_url: string | null) => new URL(start_url!).searchParams.get("ticket")!;

/** A person with a browser: where it ends, and what it has to show there. */
async function visit({ kernel }: House, as: AuthorizationServer, binding_id: string) {
  const { start_url, expires_at } = await kernel.signIns.begin(admin, binding_id, {});
  const opened = await kernel.signIns.open(ticketOf(start_url), { browser: [] });
  const back = await as.visit(opened.authorization_url);
  return { back, browser: { browser: [opened.secret!] }, expires_at: expires_at! };
}

async function signIn(house: House, as: AuthorizationServer, binding_id: string): Promise<void> {
  const { back, browser } = await visit(house, as, binding_id);
  await house.kernel.signIns.complete(browser, back);
}

/** Requests for a new token that went out, answered or not. */
const renewals = ({ fetched }: { fetched: HostRequest[] }) =>
  fetched.filter(({ body }) => body?.includes("grant_type=refresh_token") === true).length;

const call = (house: House) => house.call({ export_id: "mcp_notes_read", input: {} });

test("only an admin begins and ends a sign-in; whoever may read the binding sees whether there is one", async () => {
  const { house, binding_id } = await open();
  const { signIns } = house.kernel;
  for (const caller of [user, guest]) {
    await expect(signIns.begin(caller, binding_id, {})).rejects.toMatchObject({ code: "policy.denied" });
    await expect(signIns.end(caller, binding_id)).rejects.toMatchObject({ code: "policy.denied" });
    expect(await signIns.get(caller, binding_id)).toMatchObject({ status: "signed_out" });
  }
  const elsewhere = { ...admin, scope: { org_id: "org_other", project_id: null } };
  await expect(signIns.get(elsewhere, binding_id)).rejects.toMatchObject({ code: "binding.not_found" });
  const local = manifest([], { runtime: { protocol: "mcp.stdio", entrypoint: ["node", "s.js"] } });
  const { binding_id: other } = await house.bind(local);
  await expect(signIns.begin(admin, other, {})).rejects.toMatchObject({ code: "request.invalid" });
});

test("every request stays small, quick, and inside what the host leaves", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  expect(runner.fetched.length).toBeGreaterThan(3);
  for (const { allowed_domains, answer_bytes, timeout_ms } of runner.fetched) {
    expect({ allowed_domains, answer_bytes, timeout_ms }).toEqual({
      allowed_domains: ["*"],
      answer_bytes: 256 * 1024,
      timeout_ms: 15_000,
    });
  }
  const closed = runnerAt(as);
  const shut = await openHouse({ runner: closed, host: { network: "none" } });
  const bound = await shut.bind(SERVER);
  await shut.kernel.signIns.begin(admin, bound.binding_id, {});
  expect(closed.fetched[0]!.allowed_domains).toEqual([]);
});

test("a login ends after ten minutes, and a newer one takes its place", async () => {
  const { as, house, binding_id } = await open();
  const { signIns } = house.kernel;
  const { back, browser, expires_at } = await visit(house, as, binding_id);
  expect(Date.parse(expires_at) - house.clock.now()).toBeGreaterThan(590_000);
  house.clock.wall_offset = 10 * 60_000;
  await expect(signIns.complete(browser, back)).rejects.toMatchObject({ code: "sign_in.expired" });
  house.clock.wall_offset = 0;
  await signIns.begin(admin, binding_id, {});
  await expect(signIns.complete(browser, back)).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(as.token_requests).toEqual([]);
});

test("a token at its end is renewed before it is used; one that still holds is not", async () => {
  const { as, house, runner, binding_id } = await open();
  await signIn(house, as, binding_id);
  expect((await call(house)).status).toBe("succeeded");
  expect(as.token_requests).toHaveLength(1);
  house.clock.wall_offset = 3_600_000;
  const used = runner.orders.at(-1)!.context.secrets.authorization;
  expect((await call(house)).status).toBe("succeeded");
  expect(runner.orders.at(-1)!.context.secrets.authorization).not.toBe(used);
  expect(runner.orders).toHaveLength(2);
  expect(as.token_requests.map(({ grant_type }) => grant_type)).toEqual([
    "authorization_code",
    "refresh_token",
  ]);
});

test("near its end a token is used at once, and renewed behind the calls by one of them", async () => {
  const { as, house, runner, binding_id } = await open();
  await signIn(house, as, binding_id);
  await call(house);
  const used = runner.orders.at(-1)!.context.secrets.authorization;
  house.clock.wall_offset = 3_600_000 - 20_000;
  const answered = Promise.withResolvers<void>();
  runner.hangs = answered.promise;
  const done = await Promise.all(Array.from({ length: 10 }, () => call(house)));
  expect(done.map(({ status }) => status)).toEqual(Array(10).fill("succeeded"));
  expect(runner.orders.slice(1).map(({ context }) => context.secrets.authorization)).toEqual(
    Array(10).fill(used),
  );
  await until(() => renewals(runner) === 1);
  answered.resolve();
  await until(async () => {
    await call(house);
    return runner.orders.at(-1)!.context.secrets.authorization !== used;
  });
  expect(renewals(runner)).toBe(1);
  expect(as.token_requests).toHaveLength(2);
});

test("an authorization server that is away near a token's end is asked again after pauses that grow", async () => {
  const { as, house, runner, binding_id } = await open();
  await signIn(house, as, binding_id);
  house.clock.wall_offset = 3_600_000 - 20_000;
  runner.away = true;
  const failed = () =>
    house.logged.filter((line) => JSON.stringify(line).includes("could not be renewed")).length;
  // After so many ms of pause it is asked for the n-th time, and not before.
  for (const [n, pause] of [0, 2_000, 4_000, 8_000].entries()) {
    if (n > 0) {
      house.clock.monotonic_offset += pause - 1_000;
      expect((await call(house)).status).toBe("succeeded");
      // Long enough for a request that nobody waits for.
      await new Promise((done) => setTimeout(done, 100));
      expect(renewals(runner)).toBe(n);
      house.clock.monotonic_offset += 1_000;
    }
    expect((await call(house)).status).toBe("succeeded");
    await until(() => failed() === n + 1);
    expect(renewals(runner)).toBe(n + 1);
  }
  // Over: now a call waits for the answer, pause or not, and fails with it; once, not twice.
  house.clock.wall_offset = 3_600_000;
  const sent = runner.orders.length;
  expect(await call(house)).toMatchObject({ status: "failed", error: { code: "sign_in.failed" } });
  expect(renewals(runner)).toBe(5);
  expect(runner.orders).toHaveLength(sent);
  runner.away = false;
  expect((await call(house)).status).toBe("succeeded");
  expect(renewals(runner)).toBe(6);
});

test("a token that the server refuses is renewed once for all calls, and none of them is lost or run twice", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  as.revokeAll();
  as.slow_ms = 50;
  const done = await Promise.all(Array.from({ length: 10 }, () => call(house)));
  for (const { status, retry_count } of done)
    expect({ status, retry_count }).toEqual({ status: "succeeded", retry_count: 0 });
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(1);
  const good = runner.orders.filter(({ context }) => as.holds(context.secrets.authorization!, URL_OF_SERVER));
  expect(good).toHaveLength(10);
});

test("two nodes renew one token once", { timeout: 60_000 }, async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const as = await authorizationServer();
  const house = async () => {
    const store = await openPostgresStore({ url: postgres.url, schema: "sign_ins" });
    return await furnish(store, "", { runner: runnerAt(as) });
  };
  const [first, second] = [await house(), await house()];
  const { binding_id } = await first.bind(SERVER);
  await signIn(first, as, binding_id);
  as.revokeAll();
  as.slow_ms = 100;
  const done = await Promise.all([call(first), call(second), call(first), call(second)]);
  expect(done.map(({ status, error }) => error?.message ?? status)).toEqual(Array(4).fill("succeeded"));
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(1);
});

test("an authorization server that is away for a moment costs no sign-in", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  as.revokeAll();
  runner.away = true;
  expect(await call(house)).toMatchObject({ status: "failed", error: { code: "sign_in.failed" } });
  runner.away = false;
  expect((await call(house)).status).toBe("succeeded");
});

test("a machine asks for more scope by itself, once; what it was asked for and is refused stays refused", async () => {
  const { as, runner, house, binding_id } = await open();
  const client = { client_id: "machine", client_secret: "machine-secret-0123456789", scope: "notes" };
  await house.kernel.signIns.begin(admin, binding_id, { ...client, grant: "client_credentials" });
  runner.script = ({ order }) => serve(as, order.context.secrets.authorization, "write");
  expect((await call(house)).status).toBe("succeeded");
  expect(as.token_requests.map(({ scope }) => scope)).toEqual(["notes", "notes write"]);
  runner.script = ({ order }) =>
    refusal(403, "insufficient_scope", "write", order.context.secrets.authorization);
  expect(await call(house)).toMatchObject({ error: { code: "plugin_failed" } });
  expect(as.token_requests).toHaveLength(2);
});

test("a credential of the binding's own goes before any sign-in", async () => {
  const as = await authorizationServer();
  const runner = runnerAt(as);
  const house = await openHouse({ runner });
  await house.kernel.secrets.put(admin, "fixed", "a-fixed-token-of-the-operator");
  const secrets = { authorization: "secret://org_local/fixed" };
  const { binding_id } = await house.bind(serverWith(["authorization"]), { secrets });
  await expect(house.kernel.signIns.begin(admin, binding_id, {})).rejects.toMatchObject({
    code: "request.invalid",
  });
  runner.script = ({ order }) => serve(as, order.context.secrets.authorization);
  const done = await call(house);
  expect(done.error).toMatchObject({ code: "plugin_failed" });
  expect(done.error!.message).toContain("refuses the credential that its binding holds");
});

test("a new key seals sign-ins again", async () => {
  const { as, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const vault = createSecretVault([
    { id: "k2", key: new Uint8Array(32).fill(9) },
    { id: "k1", key: new Uint8Array(32).fill(7) },
  ]);
  const rotated = await rotateKey({ ...house.deps, vault }, admin, { new_key: false });
  expect(rotated).toMatchObject({ sign_ins: 1, unreadable: [], unused_keys: ["k1"] });
  const { row, record } = (await readSignIn({ ...house.deps, vault }, "org_local", binding_id))!;
  expect(row.ciphertext).toMatch(/^v1\.k2\./);
  expect(record.session?.signed_in_by).toBe("admin");
});

test("a description goes at the public address, and is the client's id where it may be", async () => {
  const { as, house, binding_id } = await open();
  expect(house.kernel.signIns.clientDocument()).toBeNull();
  house.deps.gateway.public_url = "https://gateway.example";
  as.metadata.client_id_metadata_document_supported = true;
  const { authorization_url } = await house.kernel.signIns.begin(admin, binding_id, {});
  const asked = new URL(authorization_url!).searchParams;
  expect(asked.get("client_id")).toBe("https://gateway.example/client-metadata.json");
  expect(asked.get("redirect_uri")).toBe("https://gateway.example/oauth/callback");
  expect(house.kernel.signIns.clientDocument()).toMatchObject({
    client_id: asked.get("client_id"),
    redirect_uris: [asked.get("redirect_uri")],
    application_type: "web",
  });
  expect(as.registrations).toEqual([]);
});

test("an answer is taken from the browser or from who began, once, and only in the name of who was asked", async () => {
  const { as, house, binding_id } = await open();
  const { signIns } = house.kernel;
  const begin = async () => await as.visit((await signIns.begin(admin, binding_id, {})).authorization_url!);
  const back = await begin();
  const other = { ...admin, actor: "key_other" };
  await expect(signIns.complete(other, back)).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(await signIns.complete(admin, back)).toMatchObject({
    status: "signed_in",
    login: { status: "done" },
  });
  await expect(signIns.complete(admin, back)).rejects.toMatchObject({ code: "sign_in.expired" });
  for (const change of [
    (answer: URL) => answer.searchParams.delete("iss"),
    (answer: URL) => answer.searchParams.set("iss", `${as.issuer}/`),
    (answer: URL) => answer.searchParams.set("error", "access_denied"),
    (answer: URL) => answer.searchParams.delete("code"),
  ]) {
    const answer = new URL(await begin());
    change(answer);
    await expect(signIns.complete(admin, answer.href)).rejects.toMatchObject({ code: "sign_in.failed" });
    expect(await signIns.get(user, binding_id)).toMatchObject({
      status: "signed_in",
      login: { status: "failed" },
    });
  }
  expect(as.token_requests).toHaveLength(1);
});

test("a refresh token that was refused is not tried again, and the sign-in says that a person is needed", async () => {
  const { as, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  as.revokeAll({ refresh: true });
  for (let i = 0; i < 3; i++) {
    const { error } = await call(house);
    expect(error).toMatchObject({ code: "sign_in.needed" });
    expect(error!.message).toContain(`backplane binding login ${binding_id}`);
  }
  expect(as.token_requests.map(({ grant_type }) => grant_type)).toEqual([
    "authorization_code",
    "refresh_token",
  ]);
  const seen = await house.kernel.signIns.get(user, binding_id);
  expect(seen).toMatchObject({
    status: "needed",
    renewable: false,
    fix: `backplane binding login ${binding_id}`,
  });
  // The authorization server's own words repeat the token that it was sent.
  const said = JSON.stringify([seen, house.logged]);
  expect(as.given_out.filter((secret) => said.includes(secret))).toEqual([]);
});

test("a binding that moves to a package at another address takes no token along", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const moved = { ...SERVER, version: "0.2.0" };
  moved.runtime = { ...SERVER.runtime, entrypoint: ["http://127.0.0.1:2/mcp"] };
  await house.kernel.packages.install(admin, house.importer.add(moved));
  await house.kernel.bindings.patch(admin, binding_id, { package_version: "0.2.0" }, undefined);
  runner.orders.length = 0;
  expect(await call(house)).toMatchObject({ error: { code: "sign_in.needed" } });
  expect(runner.orders.map(({ context }) => context.secrets)).toEqual([{}]);
  expect(runner.questions.at(-1)!.context.secrets).toEqual({});
});

test("a renewal keeps its tokens although somebody else wrote of the sign-in meanwhile", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  runner.script = async ({ order }) => {
    asked.resolve();
    await release.promise;
    return refusal(403, "insufficient_scope", "write", order.context.secrets.authorization);
  };
  const early = call(house);
  await asked.promise;
  runner.script = ({ order }) => serve(as, order.context.secrets.authorization);
  // The early call asks for more scope while the authorization server still thinks about the renewal.
  as.slow_ms = 300;
  house.clock.wall_offset = 3_600_000;
  const late = call(house);
  await until(() => renewals(runner) > 0);
  release.resolve();
  expect(await early).toMatchObject({ error: { code: "sign_in.needed" } });
  expect((await late).status).toBe("succeeded");
  // The refresh token rotated: who lost the new one could not renew any more.
  as.revokeAll();
  expect((await call(house)).status).toBe("succeeded");
  expect(as.token_requests.filter(({ grant_type }) => grant_type === "refresh_token")).toHaveLength(2);
});

test("who signs out while a code is traded for tokens stays signed out, and the tokens are given back", async () => {
  const { as, house, binding_id } = await open();
  const { signIns } = house.kernel;
  await signIn(house, as, binding_id);
  const { back, browser } = await visit(house, as, binding_id);
  as.slow_ms = 300;
  const asked = as.given_out.length;
  const trading = signIns.complete(browser, back);
  trading.catch(() => undefined);
  await until(async () => (await signIns.get(admin, binding_id)).login?.status === "taken");
  await signIns.end(admin, binding_id);
  await expect(trading).rejects.toMatchObject({ code: "sign_in.expired" });
  expect(await signIns.get(admin, binding_id)).toMatchObject({ status: "signed_out" });
  const both = as.given_out.slice(asked);
  expect(both.map((token) => token.split("-")[0])).toEqual(["access", "refresh"]);
  expect(as.revoked.slice(-2).sort()).toEqual(both.sort());
});

/** The tokens of the sign-in that stands. */
async function tokensOf(house: House, binding_id: string): Promise<string[]> {
  const { access_token, refresh_token } = (await readSignIn(house.deps, "org_local", binding_id))!.record
    .session!;
  return [access_token, refresh_token!].sort();
}

test("both tokens are revoked when the binding is removed, and when one signs out", async () => {
  const { as, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const first = await tokensOf(house, binding_id);
  await house.kernel.signIns.end(admin, binding_id);
  await until(() => as.revoked.length === 2);
  expect([...as.revoked].sort()).toEqual(first);
  await signIn(house, as, binding_id);
  const second = await tokensOf(house, binding_id);
  await house.kernel.bindings.remove(admin, binding_id);
  await until(() => as.revoked.length === 4);
  expect(as.revoked.slice(2).sort()).toEqual(second);
  expect(house.logged.filter(({ level }) => level === "warn")).toEqual([]);
});

test("a removal waits for no authorization server; the sealed row is gone, and the log says what was not revoked", async () => {
  const { as, runner, house, binding_id } = await open();
  const { binding_id: other } = await house.bind(SERVER, { org_wide: true });
  for (const id of [binding_id, other]) await signIn(house, as, id);
  const secrets = [...(await tokensOf(house, binding_id)), ...(await tokensOf(house, other))];
  const answered = Promise.withResolvers<void>();
  runner.hangs = answered.promise;
  as.revoke_status = 503;
  const before = runner.fetched.length;
  await house.kernel.signIns.end(admin, other);
  await house.kernel.bindings.remove(admin, binding_id);
  for (const id of [binding_id, other]) expect(await readSignIn(house.deps, "org_local", id)).toBeNull();
  await until(() => runner.fetched.filter(({ url }) => url.endsWith("/revoke")).length === 4);
  for (const { url, timeout_ms } of runner.fetched.slice(before))
    if (url.endsWith("/revoke")) expect(timeout_ms).toBe(5_000);
  answered.resolve();
  const told = () => house.logged.filter(({ message }) => message.includes("could not be revoked"));
  await until(() => told().length === 4);
  const said = JSON.stringify(told(), (_key, value) => (value instanceof Error ? value.message : value));
  expect(said).toContain("HTTP 503");
  expect(secrets.filter((secret) => said.includes(secret))).toEqual([]);
});

test("a sign-in that cannot be unsealed any more is removed all the same", async () => {
  const { as, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const row = (await house.deps.store.sign_ins.get("org_local", binding_id))!;
  const lost = { ...row, revision: row.revision + 1, ciphertext: "v1.lost.AAAA" };
  await house.deps.store.sign_ins.put("org_local", binding_id, lost, {});
  await house.kernel.signIns.end(admin, binding_id);
  expect(await house.deps.store.sign_ins.get("org_local", binding_id)).toBeNull();
  await house.deps.store.sign_ins.put("org_local", binding_id, { ...lost, revision: 1 }, {});
  await house.kernel.bindings.remove(admin, binding_id);
  expect(await house.deps.store.sign_ins.get("org_local", binding_id)).toBeNull();
});

test("tokens of a renewal that ends after the sign-out are given back", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  const arrived = Promise.withResolvers<void>();
  runner.late = arrived.promise;
  house.clock.wall_offset = 3_600_000 - 20_000;
  expect((await call(house)).status).toBe("succeeded");
  await until(() => as.token_requests.length === 2);
  await house.kernel.bindings.remove(admin, binding_id);
  await until(() => as.revoked.length === 2);
  arrived.resolve();
  await until(() => as.revoked.length === 4);
  expect([...as.revoked].sort()).toEqual(
    as.given_out.filter((text) => /^(access|refresh)-/.test(text)).sort(),
  );
});

test("a gateway that stops tells the authorization server first", async () => {
  const { as, runner, house, binding_id } = await open();
  await signIn(house, as, binding_id);
  runner.hangs = new Promise((done) => setTimeout(done, 200));
  await house.kernel.bindings.remove(admin, binding_id);
  await house.kernel.stop(1_000);
  expect(as.revoked).toHaveLength(2);
});

test("a sign-in belongs to the browser that opened it first; another one is refused at either end and ends nothing", async () => {
  const { as, house, binding_id } = await open();
  const { signIns } = house.kernel;
  const { start_url, redirect_uri } = await signIns.begin(admin, binding_id, {});
  expect(new URL(start_url!).origin).toBe(new URL(redirect_uri!).origin);
  const ticket = ticketOf(start_url);
  const first = await signIns.open(ticket, { browser: ["of-another-login"] });
  const mine = { browser: ["of-another-login", first.secret!] };
  expect(first).toMatchObject({ secure: false });
  expect(first.lasts_ms).toBeGreaterThan(590_000);
  // The same browser may load it again; who has stolen the address comes too late.
  expect(await signIns.open(ticket, mine)).toMatchObject({
    authorization_url: first.authorization_url,
    secret: null,
  });
  const refused = { code: "sign_in.other_browser" };
  for (const browser of [[], ["of-another-login"]])
    await expect(signIns.open(ticket, { browser })).rejects.toMatchObject(refused);
  const back = await as.visit(first.authorization_url);
  for (const browser of [[], ["of-another-login"]])
    await expect(signIns.complete({ browser }, back)).rejects.toMatchObject(refused);
  expect(as.token_requests).toEqual([]);
  expect(house.logged.filter(({ message }) => message.includes("another browser"))).toHaveLength(4);
  expect(await signIns.complete(mine, back)).toMatchObject({ status: "signed_in" });
  await expect(signIns.open(ticket, mine)).rejects.toMatchObject({ code: "sign_in.expired" });
});

test("the authorization server's own address is good for who began, in no browser", async () => {
  const { as, house, binding_id } = await open();
  const { signIns } = house.kernel;
  const { authorization_url } = await signIns.begin(admin, binding_id, {});
  const back = await as.visit(authorization_url!);
  const { state } = Object.fromEntries(new URL(back).searchParams);
  await expect(signIns.open(state!, { browser: [] })).rejects.toMatchObject({ code: "sign_in.expired" });
  await expect(signIns.complete({ browser: [state!] }, back)).rejects.toMatchObject({
    code: "sign_in.other_browser",
  });
  expect(await signIns.complete(admin, back)).toMatchObject({ status: "signed_in" });
});

test("behind TLS the browser keeps its secret for TLS alone", async () => {
  const { house, binding_id } = await open();
  house.deps.gateway.public_url = "https://gateway.example";
  const { start_url } = await house.kernel.signIns.begin(admin, binding_id, {});
  expect(start_url).toMatch(/^https:\/\/gateway\.example\/oauth\/start\?ticket=/);
  expect(await house.kernel.signIns.open(ticketOf(start_url), { browser: [] })).toMatchObject({
    secure: true,
  });
});
