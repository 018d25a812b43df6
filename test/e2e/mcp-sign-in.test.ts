/**
 * A remote MCP server that needs a sign-in, used with the CLI and over HTTP: with a real authorization server, across a
 * restart, renewals, revoked tokens and forged redirects.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser } from "../support/browser/browser.ts";
import { cleanEnvironment, startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { createCookieBrowser } from "../support/mcp/cookie-browser.ts";
import {
  type AuthorizationServer,
  type ProtectedServer,
  startAuthorizationServer,
  startProtectedServer,
} from "../support/mcp/oauth-server.ts";

let authority: AuthorizationServer;
let server: ProtectedServer;
let gateway: TestGateway;
let home: string;
let binding_id = "";

const CALLBACK = "/oauth/callback";

beforeAll(async () => {
  authority = await startAuthorizationServer();
  server = await startProtectedServer(authority);
  home = join(mkdtempSync(join(tmpdir(), "backplane-sign-in-")), "home");
  mkdirSync(home);
  writeFileSync(
    join(home, "backplane.toml"),
    `[egress]\nallow_private = ["${authority.address}", "${server.address}"]\n`,
  );
  gateway = await startTestGateway({ home });
});

afterAll(async () => {
  await gateway?.dispose();
  await server?.close();
  await authority?.close();
  rmSync(dirname(home), { recursive: true, force: true });
});

interface EndedCall {
  status: string;
  result: { content: { text: string }[] } | null;
  error: { code: string; message: string } | null;
}

async function call(): Promise<EndedCall> {
  const { body } = await gateway.http<EndedCall>("POST", "/v1/invocations?wait=20", {
    export_id: "mcp_notes_whoami",
    input: {},
  });
  return body;
}

interface StartedSignIn {
  start_url: string;
  authorization_url: string;
  redirect_uri: string;
}

async function begin(options: object = {}): Promise<StartedSignIn> {
  const { status, body } = await gateway.http<StartedSignIn>(
    "POST",
    `/v1/plugin-bindings/${binding_id}:login`,
    options,
  );
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

const readSignIn = async () => (await gateway.http("GET", `/v1/plugin-bindings/${binding_id}/sign-in`)).body;

async function completeSignIn(): Promise<void> {
  const { start_url } = await begin();
  const page = await createCookieBrowser().open(start_url);
  expect(page.status, page.text).toBe(200);
}

/** Runs `binding login`; `act` simulates the browser. Returns the output of the command. */
function login(args: string[], act: (address: string, writeStdin: (text: string) => void) => void) {
  const env = cleanEnvironment({ BACKPLANE_HOME: home });
  const child = spawn(process.execPath, [resolve("packages/cli/dist/main.js"), "binding", "login", ...args], {
    env,
  });
  let stdout = "";
  let stderr = "";
  let acted = false;
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
    const url = / {2}(http:\S+)\n/.exec(stderr)?.[1];
    if (url === undefined || acted) return;
    acted = true;
    act(url, (text) => child.stdin.end(text));
  });
  return new Promise<{ code: number | null; stdout: string; stderr: string }>((done) => {
    child.once("close", (code) => done({ code, stdout, stderr }));
  });
}

test("reports that a server needs a sign-in, with the command, at installation, in doctor and in its list of tools", async () => {
  const installed = await gateway.cli("plugin", "install", "--mcp", server.url, "notes", "--json");
  expect(installed.code, installed.stderr).toBe(0);
  binding_id = (JSON.parse(installed.stdout) as { bindings: { binding_id: string }[] }).bindings[0]!
    .binding_id;
  expect(installed.stderr).toContain("sign_in.needed");
  expect(installed.stderr).toContain(`backplane binding login ${binding_id}`);
  const doctor = await gateway.cli("doctor");
  expect(doctor.stdout).toContain(`fix: backplane binding login ${binding_id}`);
  const tools = await gateway.cli("binding", "tools", binding_id);
  expect(tools.stderr).toContain(`backplane binding login ${binding_id}`);
  expect(await readSignIn()).toMatchObject({
    status: "needed",
    fix: `backplane binding login ${binding_id}`,
    issuer: null,
    login: null,
  });
});

test("lists the tools after a login by command and browser redirect", async () => {
  const { code, stdout, stderr } = await login(["notes"], (url) => void createCookieBrowser().open(url));
  expect(code, stderr).toBe(0);
  expect(stdout).toContain("Signed in to mcp/notes");
  expect(stderr).toContain("mcp_notes_whoami");
  expect(authority.registrations).toMatchObject([
    {
      redirect_uris: [`${gateway.url}${CALLBACK}`],
      grant_types: ["authorization_code", "refresh_token"],
      application_type: "native",
    },
  ]);
  expect(authority.token_requests[0]).toMatchObject({ resource: server.url });
  expect(await readSignIn()).toMatchObject({
    status: "signed_in",
    issuer: authority.issuer,
    resource: server.url,
    scope: "notes offline_access",
    renewable: true,
    signed_in_by: "admin",
    login: { status: "done" },
  });
  const tools = await gateway.cli("binding", "tools", binding_id);
  expect(tools.stdout).toContain("mcp_notes_whoami");
  expect(tools.stderr).toContain(`Signed in at ${authority.issuer} since `);
});

test("sends the token with a call and redacts it in the result", async () => {
  const { status, result } = await call();
  expect(status).toBe("succeeded");
  expect(result?.content[0]?.text).toBe("client-1 Bearer [redacted]");
});

test("keeps the sign-in across a restart and renews an expiring token once for all waiting calls", async () => {
  await gateway.stop();
  authority.revokeAll();
  authority.token_delay_ms = 300;
  gateway = await startTestGateway({ home });
  const earlier_requests = authority.token_requests.length;
  const calls = await Promise.all(Array.from({ length: 8 }, call));
  expect(calls.map(({ status, error }) => error?.message ?? status)).toEqual(Array(8).fill("succeeded"));
  authority.token_delay_ms = 0;
  const requests = authority.token_requests.slice(earlier_requests);
  expect(requests.map(({ grant_type }) => grant_type)).toEqual(["refresh_token"]);
  // The next renewal uses the rotated refresh token; the old one would be refused.
  authority.revokeAll();
  expect((await call()).status).toBe("succeeded");
});

test("a call with a revoked sign-in reports that a person has to sign in again", async () => {
  authority.revokeAll({ refresh: true });
  const failed = await call();
  expect(failed).toMatchObject({ status: "failed", error: { code: "sign_in.needed" } });
  expect(failed.error!.message).toContain(`backplane binding login ${binding_id}`);
  expect(await readSignIn()).toMatchObject({ status: "needed", renewable: false });
  const earlier_requests = authority.token_requests.length;
  await call();
  expect(authority.token_requests.length, "a refused refresh token is not tried again").toBe(
    earlier_requests,
  );
});

test("accepts a pasted redirect URL on a machine without a browser", async () => {
  const { code, stderr, stdout } = await login(["notes", "--paste"], (url, writeStdin) => {
    void authority.visit(url).then((back) => writeStdin(`${back}\n`));
  });
  expect(code, stderr).toBe(0);
  expect(stdout).toContain("Signed in to mcp/notes");
  expect((await call()).status).toBe("succeeded");
});

test("accepts a redirect once, from the caller who started the login, and only with the right state and issuer", async () => {
  const { authorization_url } = await begin();
  const back = await authority.visit(authorization_url);
  const complete = (redirect: string, token?: string) =>
    gateway.http<{ code: string }>(
      "POST",
      "/v1/sign-ins:complete",
      { redirect },
      token === undefined ? {} : { authorization: `Bearer ${token}` },
    );
  const wrong = new URL(back);
  wrong.searchParams.set("state", "x".repeat(43));
  expect((await complete(wrong.href)).status).toBe(400);
  expect((await fetch(wrong)).status).toBe(400);
  const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
    name: "other",
    role: "admin",
    scopes: ["admin"],
  });
  expect((await complete(back, key.body.token)).status, "completed by another admin").toBe(400);
  expect((await complete(back)).status).toBe(200);
  expect((await complete(back)).status, "a second time").toBe(400);
  expect((await fetch(back)).status).toBe(400);

  const other = await authority.visit((await begin()).authorization_url);
  const foreign = new URL(other);
  foreign.searchParams.set("iss", "https://evil.example");
  const earlier_requests = authority.token_requests.length;
  expect((await complete(foreign.href)).status).toBe(502);
  expect(authority.token_requests.length, "the code was sent to no server").toBe(earlier_requests);
  expect((await complete(other)).status, "a failed login cannot be used again").toBe(400);
  expect((await call()).status, "the earlier sign-in is still valid").toBe("succeeded");
});

test("refuses a stolen start URL in a second browser, and the first one can continue", async () => {
  const { start_url } = await begin();
  const [first, thief] = [createCookieBrowser(), createCookieBrowser()];
  const authorization_url = await first.step(start_url);
  expect(first.set_cookie_lines).toHaveLength(1);
  expect(first.set_cookie_lines[0]).toMatch(
    /^backplane_login_[0-9a-f]{16}=[\w-]{43}; Path=\/oauth; HttpOnly; SameSite=Lax; Max-Age=(600|59\d)$/,
  );
  const start_page = await thief.open(start_url);
  expect([start_page.status, start_page.url]).toEqual([400, start_url]);
  expect(start_page.text).toContain("This login belongs to another browser");
  const earlier_requests = authority.token_requests.length;
  const callback_page = await thief.open(authorization_url!);
  expect(callback_page.status).toBe(400);
  expect(callback_page.text).toContain("This login belongs to another browser");
  expect(callback_page.url, "with a valid code").toContain("code=");
  expect((await fetch(callback_page.url)).status, "without any cookie").toBe(400);
  expect(authority.token_requests.length).toBe(earlier_requests);
  expect(thief.set_cookie_lines).toEqual([]);
  const again = await first.open(start_url);
  expect(again.status, again.text).toBe(200);
  expect(gateway.log()).toContain("another browser opened it");
});

test("accepts a real browser that returns with its cookie, and refuses another session of that browser", async () => {
  // For a browser, 127.0.0.1 and localhost are two sites.
  const { authorization_endpoint } = authority.metadata;
  authority.metadata.authorization_endpoint = `${authority.issuer.replace("127.0.0.1", "localhost")}/authorize`;
  const { start_url, redirect_uri } = await begin();
  authority.metadata.authorization_endpoint = authorization_endpoint;
  const browser = await openBrowser();
  // The person consents on a page, so that the redirect starts at the other site.
  authority.shows_page = true;
  try {
    const open = async () => {
      const page = await (await browser.newContext()).newPage();
      await page.goto(start_url);
      return page;
    };
    const first = await open();
    expect(new URL(first.url()).hostname).toBe("localhost");
    const other = await open();
    expect(await other.textContent("main")).toContain("belongs to another browser");
    await other.goto(first.url());
    await other.click("a");
    await other.waitForURL(`${redirect_uri}?**`);
    expect(await other.textContent("main")).toContain("belongs to another browser");
    await first.click("a");
    await first.waitForURL(`${redirect_uri}?**`);
    expect(await first.textContent("h1")).toBe("Signed in");
  } finally {
    authority.shows_page = false;
    await browser.close();
  }
  expect((await call()).status).toBe("succeeded");
});

test("a newer login replaces an older one and has its own cookie", async () => {
  const browser = createCookieBrowser();
  const first = await begin();
  await browser.step(first.start_url);
  const second = await begin();
  expect((await browser.open(second.start_url)).status).toBe(200);
  expect(new Set(browser.set_cookie_lines.map((line) => line.split("=")[0])).size).toBe(2);
  expect((await browser.open(first.start_url)).text, "a newer one took its place").toContain(
    "completed or replaced",
  );
});

test("the command reports that a person denied access", async () => {
  authority.consent = "no";
  const { code, stderr } = await login([binding_id, "--no-browser"], (url) => {
    void createCookieBrowser().open(url);
  });
  authority.consent = "yes";
  expect(code).not.toBe(0);
  expect(stderr).toContain("access_denied");
});

test("the server refuses a token for another resource, and the gateway refuses metadata of another resource", async () => {
  authority.wrong_resource = "https://elsewhere.example/mcp";
  await completeSignIn();
  const failed = await call();
  expect(failed).toMatchObject({ status: "failed", error: { code: "sign_in.needed" } });
  authority.wrong_resource = null;
  server.resource = "https://evil.example/mcp";
  const { status, body } = await gateway.http<{ code: string; message: string }>(
    "POST",
    `/v1/plugin-bindings/${binding_id}:login`,
    {},
  );
  server.resource = server.url;
  expect(status).toBe(502);
  expect(JSON.stringify(body)).toContain("another resource");
  await completeSignIn();
  expect((await call()).status).toBe("succeeded");
});

test("requests a missing scope together with the scopes that were granted before", async () => {
  server.call_scope = "write";
  const failed = await call();
  expect(failed.error).toMatchObject({ code: "sign_in.needed" });
  const { authorization_url, start_url } = await begin();
  expect(new URL(authorization_url).searchParams.get("scope")).toBe("notes offline_access write");
  await createCookieBrowser().open(start_url);
  expect((await call()).status).toBe("succeeded");
  server.call_scope = "notes";
});

test("signs in with a pre-registered client whose secret is read from stdin", async () => {
  const env = cleanEnvironment({ BACKPLANE_HOME: home });
  const args = [
    "binding",
    "login",
    "notes",
    "--client-id",
    "machine",
    "--client-secret",
    "--client-credentials",
  ];
  const exited = await new Promise<{ code: number | null; text: string }>((done) => {
    const child = spawn(process.execPath, [resolve("packages/cli/dist/main.js"), ...args], { env });
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
    });
    child.stderr.on("data", (chunk) => {
      text += chunk;
    });
    child.once("close", (code) => done({ code, text }));
    child.stdin.end("machine-secret-0123456789\n");
  });
  expect(exited.code, exited.text).toBe(0);
  expect(await readSignIn()).toMatchObject({
    grant: "client_credentials",
    client_id: "machine",
    renewable: true,
  });
  authority.revokeAll();
  expect((await call()).result?.content[0]?.text, "a renewed token").toBe("machine Bearer [redacted]");
});

test("signing out deletes the sign-in and revokes its refresh token at the server", async () => {
  await gateway.http("POST", `/v1/plugin-bindings/${binding_id}:logout`);
  await completeSignIn();
  const out = await gateway.cli("binding", "logout", "notes", "--yes");
  expect(out.code, out.stderr).toBe(0);
  await eventually(
    () => authority.revoked.some((token) => token.startsWith("refresh-")),
    60_000,
    "the refresh token is revoked",
  );
  expect(await readSignIn()).toMatchObject({ issuer: null, signed_in_at: null });
  expect((await call()).error).toMatchObject({ code: "sign_in.needed" });
});

test("removing the binding revokes both tokens and deletes the sign-in", async () => {
  await completeSignIn();
  const [access, refresh] = authority.issued_secrets.slice(-2);
  const removed = await gateway.cli("binding", "remove", binding_id, "--yes");
  expect(removed.code, removed.stderr).toBe(0);
  await eventually(
    () => authority.revoked.includes(access!) && authority.revoked.includes(refresh!),
    20_000,
    "both are revoked",
  );
  expect((await gateway.http("GET", `/v1/plugin-bindings/${binding_id}/sign-in`)).status).toBe(404);
});

test("the home, the log and the audit log contain no token, code or secret in plain text, and each step is audited", async () => {
  const { body } = await gateway.http<{ items: { action: string; actor: string }[] }>(
    "GET",
    "/v1/audit?limit=200",
  );
  const actions = new Set(body.items.map(({ action }) => action));
  for (const action of ["sign_in.begin", "sign_in.done", "sign_in.end"]) expect(actions).toContain(action);
  const places = [JSON.stringify(body), gateway.log(), ...filesIn(home)];
  expect(authority.issued_secrets.length).toBeGreaterThan(20);
  const leaked = authority.issued_secrets.filter((secret) => places.some((text) => text.includes(secret)));
  expect(leaked).toEqual([]);
});

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
}
