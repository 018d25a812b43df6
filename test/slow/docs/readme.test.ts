/** The commands and claims of the README, against a real gateway. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Registry } from "../../../packages/supply/test/support/npm-registry.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { startInstalledRegistry } from "../../support/registries/installed-registry.ts";

let gateway: TestGateway;
/** A stand-in for Jira on this machine, so the operator has to allow its address. */
let jira: Server;
/** A stand-in for the npm registry, with the published packages. */
let registry: Registry;
let address: string;
const authorizations: (string | undefined)[] = [];
beforeAll(async () => {
  jira = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ issues: [{ key: "ENG-123", fields: { summary: "billing outage" } }] }));
  });
  await new Promise<void>((done) => jira.listen(0, "127.0.0.1", done));
  address = `localhost:${(jira.address() as AddressInfo).port}`;
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(join(home, "backplane.toml"), `[egress]\nallow_private = ["${address}"]\n`);
  registry = await startInstalledRegistry(["@modelcontextprotocol/server-everything"]);
  const env = { NPM_CONFIG_REGISTRY: registry.url, NPM_CONFIG_CACHE: join(home, "npm-cache") };
  gateway = await startTestGateway({ home, env });
});
afterAll(async () => {
  await gateway.dispose();
  await registry.close();
  jira.close();
});

interface Row {
  id: string;
  status: string;
  grant: { class: string };
  error: { code: string; message: string } | null;
}

/** The `npx backplane …` lines of the README, as argument lists. */
function readmeCommands(): string[][] {
  const lines = readFileSync("README.md", "utf8").split("\n");
  return lines
    .filter((line) => line.startsWith("npx backplane "))
    .map((line) =>
      [...line.slice("npx backplane ".length).matchAll(/'([^']*)'|(\S+)/g)].map(
        (part) => part[1] ?? part[2]!,
      ),
    );
}

test("the commands of the README work in order", async () => {
  const commands = readmeCommands();
  expect(commands.map((args) => args.slice(0, 2).join(" "))).toEqual([
    "plugin install",
    "binding create",
    "invoke hello",
    "invocation list",
    "plugin install",
    "invoke mcp_server-everything_echo",
    "session chat",
  ]);
  const outputs: string[] = [];
  for (const args of commands) {
    const { code, stdout, stderr } = await gateway.cli(...args);
    expect(code, `${args.join(" ")}\n${stderr}`).toBe(0);
    outputs.push(stdout);
  }
  expect(outputs[2]).toContain("Ada");
  expect(outputs[3]).toContain("succeeded");
  expect(outputs[5]).toContain("Echo: hello");
  expect(outputs[6]).toContain("hello");
}, 180_000);

test("runs a third-party tool isolated, and refuses and records the call if the sandbox is disabled", async () => {
  // The README's own call, in the default class.
  const { body } = await gateway.http<{ items: Row[] }>("GET", "/v1/invocations?export_id=hello");
  expect(body.items[0]).toMatchObject({ status: "succeeded", grant: { class: "isolated" } });
  const status = await gateway.http<{ sandbox: { available: boolean } }>("GET", "/v1/status");
  expect(status.body.sandbox).toMatchObject({ available: true });
  // A worker is confined in the same way.
  const list = await gateway.http<{ items: { binding_id: string; export_id: string }[] }>(
    "GET",
    "/v1/plugin-bindings",
  );
  const hello = list.body.items.find((item) => item.export_id === "hello")!;
  expect((await gateway.cli("binding", "set", hello.binding_id, "--class", "worker")).code).toBe(0);
  const pooled = await gateway.cli("invoke", "hello", "--input", '{"name":"Ada"}');
  expect(pooled.stdout, pooled.stderr).toContain("Ada");

  const unconfined = await startTestGateway({ env: { BACKPLANE_SANDBOX: "0" } });
  try {
    await unconfined.cli("plugin", "install", "examples/hello-tool");
    const bound = await unconfined.cli("binding", "create", "acme/hello", "hello", "--json");
    expect(bound.code, bound.stderr).toBe(0);
    const call = () => unconfined.cli("invoke", "hello", "--input", '{"name":"Ada"}');
    const refused = await call();
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain("error[sandbox.unavailable]");
    const rows = await unconfined.http<{ items: Row[] }>("GET", "/v1/invocations?export_id=hello");
    expect(rows.body.items).toMatchObject([{ status: "failed", error: { code: "sandbox.unavailable" } }]);
    const { binding_id } = JSON.parse(bound.stdout) as { binding_id: string };
    expect((await unconfined.cli("binding", "set", binding_id, "--class", "worker")).code).toBe(0);
    expect((await call()).stdout).toContain("Ada");
  } finally {
    await unconfined.dispose();
  }
});

test("a Python tool does not reach a host that its binding does not allow, and the refused host is recorded", async () => {
  await gateway.cli("plugin", "install", "examples/jira-search");
  const config = JSON.stringify({ base_url: "http://jira.acme.test" });
  const bound = await gateway.cli(
    "binding",
    "create",
    "acme/jira",
    "jira_search",
    "--config",
    config,
    "--json",
  );
  expect(bound.code, bound.stderr).toBe(0);
  const binding = JSON.parse(bound.stdout) as { binding_id: string };
  expect(binding).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
  const stored = await gateway.http("PUT", "/v1/secrets/jira", { value: "not-the-one" });
  expect(stored.status).toBeLessThan(300);
  const callWith = async (policy: object) => {
    const secrets = { jira_token: "secret://org_local/jira" };
    const path = `/v1/plugin-bindings/${binding.binding_id}`;
    expect((await gateway.http("PATCH", path, { secrets, policy })).body).toMatchObject({
      status: "active",
    });
    const call = { export_id: "jira_search", input: { query: "billing outage", project: "ENG" } };
    return (await gateway.http<Row>("POST", "/v1/invocations?wait=true", call)).body;
  };
  for (const name of ["isolated", "worker"]) {
    expect(await callWith({ class: name })).toMatchObject({
      status: "failed",
      grant: { class: name, network: "egress", allowed_domains: [] },
      egress: { refusals: [{ host: "jira.acme.test", port: 80, reason: "domain.not_allowed" }] },
    });
    expect(await callWith({ class: name, permissions: { network: "none" } })).toMatchObject({
      status: "retryable_failure",
      grant: { class: name, network: "none" },
      egress: {
        refusals: expect.arrayContaining([
          expect.objectContaining({ host: "jira.acme.test", port: 53, reason: "direct.lookup" }),
        ]),
      },
      error: { message: expect.stringContaining("Jira cannot be reached") },
    });
  }
  expect(authorizations).toEqual([]);
});

test("a Python tool sends its secret to its server, and the secret is in no record", async () => {
  const canary = "canary-7f3a9c51d2";
  expect((await gateway.http("PUT", "/v1/secrets/jira", { value: canary })).status).toBeLessThan(300);
  const list = await gateway.http<{ items: { binding_id: string; export_id: string }[] }>(
    "GET",
    "/v1/plugin-bindings",
  );
  const binding = list.body.items.find((item) => item.export_id === "jira_search")!;
  for (const name of ["isolated", "worker"]) {
    const patched = await gateway.http("PATCH", `/v1/plugin-bindings/${binding.binding_id}`, {
      config: { base_url: `http://${address}`, max_results: 5 },
      secrets: { jira_token: "secret://org_local/jira" },
      policy: { class: name, allowed_domains: [address] },
    });
    expect(patched.body).toMatchObject({ status: "active" });
    const call = await gateway.http<{ status: string; id: string }>("POST", "/v1/invocations?wait=true", {
      export_id: "jira_search",
      input: { query: "billing outage", project: "ENG" },
    });
    expect(call.body).toMatchObject({ status: "succeeded", egress: null });
    expect(JSON.stringify(call.body)).toContain("ENG-123");
    expect(authorizations.pop()).toContain(canary);
    const record = await gateway.http("GET", `/v1/invocations/${call.body.id}`);
    expect(JSON.stringify(record.body)).not.toContain(canary);
  }
  expect(gateway.log()).not.toContain(canary);
});

test("delivers a settled call to a shell hook", async () => {
  expect((await gateway.cli("plugin", "install", "examples/notifier")).code).toBe(0);
  const bound = await gateway.cli("binding", "create", "acme/notifier", "notify", "--json");
  expect(bound.code, bound.stderr).toBe(0);
  await gateway.cli("invoke", "hello", "--input", '{"name":"Grace"}');
  const isDelivered = async () => {
    const { body } = await gateway.http<{ items: { status: string }[] }>(
      "GET",
      "/v1/invocations?export_id=notify",
    );
    return body.items.some((item) => item.status === "succeeded");
  };
  await eventually(isDelivered, 60_000, "the event was delivered to the hook");
  expect(await isDelivered()).toBe(true);

  // In the class isolated, the shell program runs once per delivery.
  const { binding_id } = JSON.parse(bound.stdout) as { binding_id: string };
  const isolated = await gateway.cli("binding", "set", binding_id, "--class", "isolated");
  expect(isolated.code, isolated.stderr).toBe(0);
  await gateway.cli("invoke", "hello", "--input", '{"name":"Lin"}');
  const isDeliveredIsolated = async () => {
    const { body } = await gateway.http<{ items: Row[] }>("GET", "/v1/invocations?export_id=notify");
    return body.items.some((item) => item.status === "succeeded" && item.grant.class === "isolated");
  };
  await eventually(isDeliveredIsolated, 60_000, "the event was delivered to an isolated process");
});
