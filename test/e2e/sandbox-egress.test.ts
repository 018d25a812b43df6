/** Egress of sandboxed plugins, end to end: to the gateway with the token of the call, to granted hosts, nowhere else. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Invocation } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { bundle, installAndBind, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
let server: Server;
let port: number;
let reached: string[];
beforeAll(async () => {
  reached = [];
  server = createServer((request, response) => {
    reached.push(`${request.headers.host}${request.url}`);
    response.end("from outside");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  port = (server.address() as AddressInfo).port;
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(
    join(home, "backplane.toml"),
    `[egress]\nallow_private = ["localhost:${port}"]\n[egress.limits]\ntotal_connections = 12\n`,
  );
  gateway = await startTestGateway({ home });
  const echo = writePluginFolder({
    package_id: "acme/echo",
    entrypoint: ["python3", "./plugin.py"],
    files: {
      "plugin.py": pythonProgram(
        "acme/echo",
        '@plugin.tool("echo")\ndef echo(input, call):\n    return input',
      ),
    },
    exports: [{ id: "echo" }],
  });
  await installAndBind(gateway, echo, ["echo"], {});
  await gateway.http("POST", "/v1/sessions", { session_id: "shown" });
});
afterAll(async () => {
  await gateway.dispose();
  server.close();
});

const SCOPES =
  '[exports.permissions]\nnetwork = "none"\ngateway_api_scopes = ["sessions:read", "tools:invoke"]';

/** Makes allowed requests with the SDK, then forbidden ones. `tried` lists each target with its status or error. */
const NODE = `import { definePlugin, serve, tool } from "@backplane/sdk";
const reach = tool({ id: "reach_node", input: { type: "object" }, async run(input, call) {
  const session = await call.gateway.json("/v1/sessions/shown");
  const invoked = await call.gateway.json("/v1/invocations?wait=20", { body: { export_id: "echo", input: { n: 1 } } });
  const tried = [];
  for (const path of input.paths) {
    const { status } = await call.gateway.fetch(path);
    tried.push([path, status]);
  }
  const bare = await fetch(call.gateway.base_url + "/v1/sessions", { headers: { authorization: "Bearer " + input.token } });
  tried.push(["bare", bare.status]);
  for (const url of input.urls) {
    tried.push([url, await fetch(url).then(({ status }) => status, () => "unreachable")]);
  }
  return { session: session.id, invoked: invoked.result.structured_output, tried, base_url: call.gateway.base_url };
} });
serve(definePlugin({ package_id: "acme/reach-node", version: "1.0.0", exports: [reach] }));
`;

const PYTHON = `import urllib.error, urllib.request
@plugin.tool("reach_python")
def reach(input, call):
    access = call.context["gateway"]
    session = call.gateway("/v1/sessions/shown")
    invoked = call.gateway("/v1/invocations?wait=20", {"export_id": "echo", "input": {"n": 1}})
    def status(url, token):
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
        try:
            return urllib.request.urlopen(request, timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return "unreachable"
    tried = [[path, status(access["base_url"] + path, access["delegation_token"])] for path in input["paths"]]
    tried.append(["bare", status(access["base_url"] + "/v1/sessions", input["token"])])
    tried += [[url, status(url, access["delegation_token"])] for url in input["urls"]]
    return {"session": session["id"], "invoked": invoked["result"]["structured_output"], "tried": tried,
            "base_url": access["base_url"]}`;

function pythonProgram(package_id: string, body: string): string {
  const sdk = readFileSync("packages/sdk/python/backplane_sdk.py", "utf8");
  const own = `from backplane_sdk import Plugin\nplugin = Plugin("${package_id}", "1.0.0")\n${body}\nplugin.serve()\n`;
  // The SDK is embedded as a module, so that the plugin is a single file.
  return `import sys, types\nsdk = types.ModuleType("backplane_sdk")\nsys.modules["backplane_sdk"] = sdk\nexec(compile(${JSON.stringify(sdk)}, "backplane_sdk.py", "exec"), sdk.__dict__)\n${own}`;
}

async function call(export_id: string, input: object): Promise<Invocation> {
  const { body } = await gateway.http<Invocation>("POST", "/v1/invocations?wait=30", { export_id, input });
  const record = await gateway.http<Invocation>("GET", `/v1/invocations/${body.id}`);
  return record.body;
}

verifies(
  "delegation.reach",
  "with a scope and without network, the SDKs reach only the gateway's delegated routes from the sandbox",
  async () => {
    const folders = {
      reach_node: writePluginFolder({
        package_id: "acme/reach-node",
        entrypoint: ["node", "./plugin.mjs"],
        files: { "plugin.mjs": bundle(NODE) },
        exports: [{ id: "reach_node", extra: SCOPES, effect_class: "idempotent_write" }],
      }),
      reach_python: writePluginFolder({
        package_id: "acme/reach-python",
        entrypoint: ["python3", "./plugin.py"],
        files: { "plugin.py": pythonProgram("acme/reach-python", PYTHON) },
        exports: [{ id: "reach_python", extra: SCOPES, effect_class: "idempotent_write" }],
      }),
    };
    const input = {
      paths: [
        "/v1/sessions",
        "/v1/secrets",
        "/v1/plugin-bindings",
        "/metrics",
        "/health/live",
        "/",
        "/v1/../metrics",
      ],
      token: gateway.token,
      urls: [`http://127.0.0.1:${port}/`, "http://169.254.169.254/", "http://example.com/"],
    };
    for (const [export_id, folder] of Object.entries(folders)) {
      const bindings = await installAndBind(gateway, folder, [export_id], {});
      for (const name of ["isolated", "worker"]) {
        const policy = { class: name, approval: "never" };
        await gateway.http("PATCH", `/v1/plugin-bindings/${bindings[export_id]}`, { policy });
        const record = await call(export_id, input);
        expect(record, JSON.stringify(record)).toMatchObject({
          status: "succeeded",
          grant: { class: name, network: "none" },
        });
        const { structured_output } = record.result as unknown as {
          structured_output: Record<string, unknown>;
        };
        expect(structured_output).toMatchObject({
          session: "shown",
          invoked: { n: 1 },
          base_url: gateway.url,
        });
        const tried = new Map(structured_output.tried as [string, number | string][]);
        expect(tried.get("/v1/sessions")).toBe(200);
        // Routes without a granted scope return 403, and so do routes that the listener does not serve.
        for (const path of input.paths.slice(1)) expect([path, tried.get(path)]).toEqual([path, 403]);
        expect(tried.get("bare")).toBe(403);
        for (const url of input.urls) expect([url, tried.get(url)]).toEqual([url, "unreachable"]);
        const reasons = record.egress!.refusals.map(({ reason }) => reason);
        const direct = ["direct.connection", "direct.lookup"];
        expect(new Set(reasons)).toEqual(new Set(["gateway.route", "gateway.no_token", ...direct]));
      }
    }
    expect(reached).toEqual([]);
  },
  120_000,
);

test("reports refused connections over HTTP and in the CLI, and reaches an allowed private destination", async () => {
  const ask = `import urllib.error, urllib.request
@plugin.tool("ask")
def ask(input, call):
    answers = []
    for url in input["urls"]:
        try:
            answers.append(urllib.request.urlopen(url, timeout=5).read().decode())
        except urllib.error.HTTPError as error:
            answers.append(error.code)
    return {"answers": answers}`;
  const folder = writePluginFolder({
    package_id: "acme/ask",
    entrypoint: ["python3", "./plugin.py"],
    files: { "plugin.py": pythonProgram("acme/ask", ask) },
    exports: [
      {
        id: "ask",
        extra: `[exports.permissions]\nnetwork = "egress"\nallowed_domains = ["localhost:${port}", "home.acme.test"]`,
      },
    ],
  });
  const bindings = await installAndBind(gateway, folder, ["ask"], {});
  const url = `http://localhost:${port}/x`;
  for (const name of ["isolated", "worker"]) {
    await gateway.http("PATCH", `/v1/plugin-bindings/${bindings.ask}`, { policy: { class: name } });
    const record = await call("ask", { urls: [url, "http://evil.test/", "http://10.1.2.3:99/"] });
    expect(record.result).toMatchObject({ structured_output: { answers: ["from outside", 403, 403] } });
    expect(record.egress).toMatchObject({
      refused: 2,
      refusals: [
        { host: "evil.test", port: 80, reason: "domain.not_allowed" },
        { host: "10.1.2.3", port: 99, reason: "address.literal" },
      ],
    });
    const invocation_output = await gateway.cli("invocation", "show", record.id);
    expect(invocation_output.stdout).toContain(
      "refused connections:\nevil.test:80 domain.not_allowed: The grant",
    );
    expect(invocation_output.stdout).toMatch(
      new RegExp(`To allow them: backplane binding set ${bindings.ask} --domains \\S+,evil\\.test\n`),
    );
    const output = await gateway.cli("invoke", "ask", "--input", '{"urls":["http://evil.test/"]}');
    expect(output.stderr).toContain("Refused connections:\n  evil.test:80 domain.not_allowed");
    // The manifest requests fewer domains, and no binding can widen that: the command reports it.
    const denied = await gateway.cli("binding", "set", "ask", "--domains", `localhost:${port},evil.test`);
    expect(denied.stderr).toContain("Not reachable: evil.test. acme/ask itself requests only localhost:");
    const capped = await call("ask", { urls: Array.from({ length: 13 }, () => url) });
    expect(capped.egress?.refusals.map(({ reason }) => reason)).toContain("limit.connections");
  }
  expect(new Set(reached)).toEqual(new Set([`localhost:${port}/x`]));
}, 60_000);

/** Streams an answer of the gateway's model with the delegated token, as a hosted agent does. */
const ASKER = `import { definePlugin, serve, tool } from "@backplane/sdk";
const ask = tool({ id: "ask_model", input: { type: "object" }, async run(input, call) {
  const body = { model: "llm-echo/echo", stream: true, messages: [{ role: "user", content: input.text }] };
  const answer = await call.gateway.fetch("/v1/chat/completions", { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  return { status: answer.status, call: answer.headers.get("backplane-llm-call"), text: await answer.text() };
} });
serve(definePlugin({ package_id: "acme/asker", version: "1.0.0", exports: [ask] }));
`;

verifies(
  ["llm.gateway", "delegation.reach"],
  "a sandboxed plugin without network streams from the gateway's model, and the model call is linked to its invocation",
  async () => {
    const extra = '[exports.permissions]\nnetwork = "none"\ngateway_api_scopes = ["llm:invoke"]';
    const folder = writePluginFolder({
      package_id: "acme/asker",
      entrypoint: ["node", "./plugin.mjs"],
      files: { "plugin.mjs": bundle(ASKER) },
      exports: [{ id: "ask_model", extra, effect_class: "idempotent_write" }],
    });
    await installAndBind(gateway, folder, ["ask_model"], {});
    const { id, result } = await call("ask_model", { text: "from the sandbox" });
    const { structured_output } = result as {
      structured_output: { status: number; call: string; text: string };
    };
    const { status, call: record, text } = structured_output;
    expect([status, text.endsWith("data: [DONE]\n\n")]).toEqual([200, true]);
    const { body } = await gateway.http<{ items: object[] }>("GET", `/v1/llm-calls?invocation_id=${id}`);
    expect(body.items).toMatchObject([{ id: record, actor: id, status: "succeeded", provider: "llm-echo" }]);
  },
);
