/** Model calls follow the address rules of plugins, and error bodies of providers are not echoed. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

const INTERNAL = "internal-body-9f3c";
const KEY = "sk-of-the-org-7777";

interface TestResult {
  ok: boolean;
  error?: string;
}

let gateway: TestGateway;
let servers: Server[] = [];
const requests: { server: string; url: string; headers: IncomingHttpHeaders }[] = [];

/** The path selects the response. */
async function listen(name: string, redirect_to = ""): Promise<string> {
  const server = createServer((request, response) => {
    requests.push({ server: name, url: request.url ?? "", headers: request.headers });
    request.resume();
    if (request.url?.startsWith("/moved")) {
      response.writeHead(307, { location: redirect_to }).end(INTERNAL);
      return;
    }
    response.writeHead(404, { "content-type": "application/json" });
    const long = "x".repeat(1 << 20);
    response.end(
      JSON.stringify({ error: { message: `${INTERNAL} ${long}`, code: INTERNAL, type: INTERNAL } }),
    );
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  servers.push(server);
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

let local: string;
let elsewhere: string;
let allowed_address: string;

beforeAll(async () => {
  elsewhere = await listen("elsewhere");
  local = await listen("local", `http://${elsewhere}/v1/chat/completions`);
  allowed_address = await listen("opened");
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${allowed_address}"]\n`);
  gateway = await startTestGateway({ home });
});
afterAll(async () => {
  await gateway?.dispose();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  servers = [];
});

const createOrgKey = async (org_id: string): Promise<string> => {
  const body = { name: "k", org_id, project_id: null, role: "owner", scopes: ["admin"] };
  return (await gateway.http<{ token: string }>("POST", "/v1/keys", body)).body.token;
};

/** Uses the key of an org, otherwise the admin token. */
async function send<T>(token: string | null, method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  const response = await gateway.http<T>(method, path, body, headers);
  expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  return response.body;
}

async function addProvider(
  token: string | null,
  id: string,
  plugin: string,
  base_url: string,
): Promise<void> {
  const config = { base_url, api_key: KEY, model: "m" };
  await send(token, "POST", "/api/llm-providers", { id, plugin, config });
}

const probe = (token: string | null, id: string): Promise<TestResult> =>
  send<TestResult>(token, "POST", `/api/llm-providers/${id}/test`);

verifies(
  "sec.provider-egress",
  "refuses loopback, private, link-local and metadata addresses for providers, by name and by number",
  async () => {
    const token = await createOrgKey("org_b");
    const port = local.split(":")[1]!;
    const bad = [
      `http://${local}/v1`,
      `http://localhost:${port}/v1`,
      `http://localhost.:${port}/v1`,
      `http://x.localhost:${port}/v1`,
      `http://0.0.0.0:${port}/v1`,
      `http://[::1]:${port}/v1`,
      `http://[::ffff:127.0.0.1]:${port}/v1`,
      `http://2130706433:${port}/v1`,
      `http://0x7f.1:${port}/v1`,
      "http://169.254.169.254/latest/meta-data",
      "http://10.0.0.1/v1",
      "http://192.168.1.1/v1",
      `${gateway.url}/v1`,
    ];
    for (const [n, base_url] of bad.entries()) {
      for (const plugin of ["llm-openai", "llm-anthropic"]) {
        const id = `bad-${n}-${plugin}`;
        await addProvider(token, id, plugin, base_url);
        const { ok, error } = await probe(token, id);
        expect([base_url, ok, error]).toEqual([
          base_url,
          false,
          expect.stringMatching(/does not connect to .*--allow-private/s),
        ]);
      }
    }
    expect(requests).toEqual([]);
    // An address that backplane.toml allows for all orgs is reachable.
    await addProvider(token, "opened", "llm-openai", `http://${allowed_address}/v1`);
    expect((await probe(token, "opened")).error).toContain("HTTP 404");
    expect(requests.map(({ server }) => server)).toEqual(["opened"]);
  },
);

verifies(
  "sec.provider-egress",
  "lets the host's admin allow a local model server for one instance, and does not echo its error body",
  async () => {
    requests.length = 0;
    const argv = ["provider", "add", "llm-openai", "--id", "ollama", "--set", `base_url=http://${local}/v1`];
    const added = await gateway.cli(...argv, "--set", "model=m", "--allow-private");
    expect(added.code, added.stderr).toBe(0);
    expect(added.stderr).toContain(`now sends model calls to ${local}`);
    expect(added.stderr).toContain("audit log");
    const audit = await send<{ items: { action: string; details: object }[] }>(null, "GET", "/v1/audit");
    expect(audit.items[0]).toMatchObject({ action: "provider.create", details: { allow_private: local } });

    const { ok, error } = await probe(null, "ollama");
    expect(ok).toBe(false);
    expect(error).toContain("HTTP 404");
    expect(error!.length).toBeLessThan(300);
    expect(error).not.toContain(INTERNAL);
    expect(requests.map(({ server }) => server)).toEqual(["local"]);

    // Another org uses the same address while the connection of this org is still open for reuse.
    const token = await createOrgKey("org_c");
    await addProvider(token, "same-place", "llm-openai", `http://${local}/v1`);
    expect((await probe(token, "same-place")).error).toContain("--allow-private");
    expect(requests).toHaveLength(1);
    // The permission does not cover an instance of another plugin in the same org.
    await addProvider(null, "second", "llm-anthropic", `http://${local}/v1`);
    expect((await probe(null, "second")).error).toContain("--allow-private");
    expect(requests).toHaveLength(1);

    // A failed turn reveals no more than the probe.
    await send(null, "PATCH", "/api/llm-providers/active", { name: "ollama" });
    const run = await send<{ error: { message: string } | null }>(null, "POST", "/v1/runs?wait=30", {
      session_id: "egress-1",
      input: { text: "hello" },
    });
    expect(JSON.stringify(run)).toContain("HTTP 404");
    expect(JSON.stringify(run)).not.toContain(INTERNAL);
    // The host's operator finds it in the log, truncated.
    const logged = gateway
      .log()
      .split("\n")
      .find((line) => line.includes(INTERNAL))!;
    expect(logged.length).toBeLessThan(1_500);
    await send(null, "PATCH", "/api/llm-providers/active", { name: "llm-echo" });

    const closed = await gateway.cli("provider", "set", "ollama", "allow_private=");
    expect(closed.code, closed.stderr).toBe(0);
    const request_count = requests.length;
    expect((await probe(null, "ollama")).error).toContain("--allow-private");
    expect(requests).toHaveLength(request_count);
  },
);

verifies(
  ["sec.provider-egress", "sec.credential-destination"],
  "does not follow a redirect, so neither the request nor its key reaches another address",
  async () => {
    requests.length = 0;
    for (const plugin of ["llm-openai", "llm-anthropic"]) {
      const id = `moved-${plugin}`;
      await addProvider(null, id, plugin, `http://${local}/moved`);
      await send(null, "PATCH", `/api/llm-providers/${id}`, { config: { allow_private: true } });
      // Allowed as well, so that only the redirect prevents the request.
      await addProvider(null, `${id}-next`, plugin, `http://${elsewhere}/v1`);
      await send(null, "PATCH", `/api/llm-providers/${id}-next`, { config: { allow_private: true } });
      const { error } = await probe(null, id);
      expect(error).toContain("redirect");
      expect(error).not.toContain(INTERNAL);
    }
    expect(requests.map(({ server }) => server)).toEqual(["local", "local"]);
  },
);

test("a project's key can neither allow a private address nor point the org's provider at one", async () => {
  const body = { name: "p", role: "owner", scopes: ["admin"] };
  const { token } = (await gateway.http<{ token: string }>("POST", "/v1/keys", body)).body;
  const headers = { authorization: `Bearer ${token}` };
  const attempts: [string, string, unknown][] = [
    ["PATCH", "/api/llm-providers/ollama", { config: { allow_private: true } }],
    ["PATCH", "/api/llm-providers/ollama", { config: { base_url: `http://${elsewhere}/v1` } }],
    ["PATCH", "/api/config/providers.ollama.base_url", { value: `http://${elsewhere}/v1` }],
    ["PATCH", "/api/config/providers.ollama.allow_private", { value: elsewhere }],
  ];
  for (const [method, path, json] of attempts) {
    expect((await gateway.http(method, path, json, headers)).status, path).toBe(403);
  }
});
