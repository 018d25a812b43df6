/** Self-describing packages (tool files, MCP servers, instruments) and skills: installation and reports about them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Binding } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXIT } from "../src/index.ts";
import { startTestGateway, type TestGateway } from "./support/gateway.ts";

let gateway: TestGateway;
const root = mkdtempSync(join(tmpdir(), "backplane-described-"));
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway.close();
  rmSync(root, { recursive: true, force: true });
});

function writeFolder(name: string, files: Record<string, string>): string {
  for (const [file, text] of Object.entries(files)) {
    const path = join(root, name, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return join(root, name);
}

/** The manifest of an instrument plugin whose provider is provider.mjs. */
function instrumentManifest(id: string, isolationMode: "InProcess" | "External"): string {
  const identity = { id, name: id, version: "1.0.0", author: "Acme", description: "An instrument." };
  return JSON.stringify({ ...identity, providerClass: "./provider.mjs#Provider", isolationMode });
}

const findBindingId = (text: string) => /bind_[0-9a-z]+/.exec(text)![0];

const toolSource = (risk: string) =>
  `export default { description: "A tool.", defaultRiskLevel: "${risk}", execute: () => ({ content: "ok", isError: false }) };`;

test("lists a tool file that fails to load, together with its error", async () => {
  const tools = writeFolder("files", {
    "tools/reads.ts": toolSource("low"),
    "tools/writes.ts": toolSource("medium"),
    "tools/torn.ts": "throw new Error('torn at import');",
  });
  const { out, err } = await gateway.backplane(["plugin", "install", tools]);
  expect(err).toContain("Tools: reads, writes\n");
  expect(err).toMatch(/torn is not offered: it cannot run: .*torn at import/);
  expect(err).toContain("writes will need approval when a model calls them.");
  const listed = await gateway.backplane(["tool", "list", "--all"]);
  expect(listed.out).toMatch(/torn .*hidden +it cannot run: .*torn at import/);
  expect((await gateway.backplane(["tool", "show", "torn"])).out).toMatch(/reason: +it cannot run: .*torn/);
  const bound = await gateway.backplane(["binding", "tools", findBindingId(out)]);
  expect(bound.out).toMatch(/reads +offered +A tool\.\ntorn +broken +.*torn at import\nwrites +offered/);
  const info = await gateway.backplane(["plugin", "info", "local/files"]);
  expect(info.out).toMatch(/BINDING +STATUS +TOOL +STATE\nbind_\w+ +active +reads +offered\n.*torn +broken/);
  expect((await gateway.backplane(["plugin", "list"])).out).toMatch(/local\/files .*tool files/);
});

test("prints the message of a failed tool once at a terminal, and on both streams otherwise", async () => {
  const tools = writeFolder("failing", {
    "tools/breaks.ts":
      'export default { defaultRiskLevel: "low", execute: () => { throw new Error("broke at noon"); } };',
  });
  await gateway.backplane(["plugin", "install", tools]);
  const invoked = await gateway.backplane(["invoke", "breaks"], { tty: true });
  expect((invoked.out + invoked.err).match(/broke at noon/g)).toHaveLength(1);
  expect(invoked.err).toContain("See its message above.");
  const piped = await gateway.backplane(["invoke", "breaks"]);
  expect([piped.out, piped.err]).toEqual(["broke at noon\n", expect.stringContaining("broke at noon (inv_")]);
});

test("reports immediately that a changed binding no longer starts, and lists the tools after its secret is bound", async () => {
  const permissions = { secret_slots: ["token"] };
  const tools = writeFolder("gone", {
    "package.json": JSON.stringify({ name: "gone", backplane: { permissions } }),
    "tools/looks.ts": toolSource("low"),
  });
  expect((await gateway.backplane(["plugin", "install", tools])).err).toContain("--secret token=NAME");
  await gateway.backplane(["secret", "set", "look"], { stdin: "a value of a secret\n" });
  const bound = await gateway.backplane(["binding", "set", "local/gone", "--secret", "token=look"]);
  expect(bound.err).toContain("Tools: looks\n");
  const missing_mount = await gateway.backplane([
    "binding",
    "set",
    "gone",
    "--mount",
    `${root}/nowhere:/data`,
  ]);
  expect(missing_mount.exit).toBe(EXIT.ok);
  expect(missing_mount.err).toContain(
    `The binding cannot mount "${root}/nowhere": the folder does not exist on the gateway's machine.`,
  );
  expect(missing_mount.err).toContain(
    "fix: Correct the mounts of the binding: backplane binding set ID --mount",
  );
  // The record also contains the remedy.
  const called = await gateway.backplane(["invoke", "looks"]);
  expect(called.err).toContain("fix: Correct the mounts of the binding: backplane binding set ID --mount");
  const invocation = /inv_[0-9a-z]+/.exec(called.err)![0];
  const record = await gateway.backplane(["invocation", "show", invocation]);
  expect(record.out).toMatch(/\nfix: +Correct the mounts of the binding/);
  expect((await gateway.backplane(["binding", "set", "gone", "--no-mount"])).err).toBe("");
});

test("rejects flags that have no effect on servers", async () => {
  const server = { mcpServers: { own: { command: "node", args: ["-e", "1"] } } };
  const file = join(writeFolder("flags", { "mcp.json": JSON.stringify(server) }), "mcp.json");
  const linked = await gateway.backplane(["plugin", "install", file, "--editable"]);
  expect([linked.exit, linked.err]).toEqual([EXIT.usage, expect.stringContaining("--editable")]);
  const unbound = await gateway.backplane(["plugin", "install", file, "--no-bind", "--domains", "a.example"]);
  expect([unbound.exit, unbound.err]).toEqual([EXIT.usage, expect.stringContaining("--domains applies to")]);
  expect((await gateway.backplane(["plugin", "list"])).out).not.toContain("mcp/own");
});

test("reports a name conflict with a fix, and shows the class of a host tool as host", async () => {
  const host = toolSource("low").replace("description", 'executionTarget: "host", description');
  await gateway.backplane(["plugin", "install", writeFolder("first", { "tools/twice.ts": host })]);
  const { err } = await gateway.backplane([
    "plugin",
    "install",
    writeFolder("next", { "tools/twice.ts": host }),
  ]);
  expect(err).toMatch(/twice is not offered: .*local\/first .*\nfix: backplane binding disable bind_/);
  await gateway.backplane(["binding", "set", "local/first", "--host-target"]);
  const { id } = await gateway.json<{ id: string }>(["invoke", "twice"]);
  expect((await gateway.backplane(["invocation", "show", id])).out).toMatch(/\nclass: +host\n/);
  await gateway.backplane(["policy", "set", "allowed_tool_categories", '["none-has-it"]']);
  expect((await gateway.backplane(["tool", "list"])).err).toContain("To see why: backplane tool list --all");
  await gateway.backplane(["policy", "set", "allowed_tool_categories", "null"]);
});

test("reports hidden characters in descriptions to the operator", async () => {
  const sly = toolSource("low").replace("A tool.", "A \u202etool.\u{e0068}\u{e0069}");
  await gateway.backplane(["plugin", "install", writeFolder("sly", { "tools/slyly.ts": sly })]);
  const tool_text = (await gateway.backplane(["tool", "show", "slyly"])).out;
  expect(tool_text).toContain("\nA \ufffdtool.\ufffd\n");
  expect(tool_text).toContain(
    'hidden: /description: 3 hidden characters (U+202E, U+E0068, U+E0069), which spell "hi"',
  );
  const { checks } = JSON.parse((await gateway.backplane(["doctor", "--json"])).out) as {
    checks: { name: string }[];
  };
  expect(checks.find(({ name }) => name === "hidden characters local/sly")).toMatchObject({
    status: "degraded",
    message: expect.stringContaining(
      "hidden characters were removed from slyly: /description: 3 hidden characters",
    ),
    fix: "backplane tool show slyly",
  });
});

test("lists an inactive tool with a fix that works", async () => {
  const { out } = await gateway.backplane([
    "plugin",
    "install",
    writeFolder("idle", { "tools/idles.ts": toolSource("low") }),
  ]);
  const id = findBindingId(out);
  await gateway.backplane(["binding", "disable", id]);
  expect((await gateway.backplane(["tool", "list"])).out).not.toContain("idles");
  const { out: all } = await gateway.backplane(["tool", "list", "--all"]);
  const fix = /\nidles .*inactive +its binding is disabled\n {2}fix: backplane (.+)\n/.exec(all)![1]!;
  expect((await gateway.backplane(["tool", "show", "idles"])).out).toContain(`fix:      backplane ${fix}`);
  await gateway.backplane(fix.split(" "));
  expect((await gateway.backplane(["tool", "list"])).out).toContain("idles");
});

test("keeps the settings of the binding but not its trust for a new version", async () => {
  const bound = async () =>
    (await gateway.json<{ items: Binding[] }>(["binding", "list"])).items.filter(
      ({ package_id }) => package_id === "local/moving",
    );
  const first = writeFolder("moving", {
    "tools/early.ts": toolSource("low"),
    "tools/kept.ts": toolSource("low"),
  });
  await gateway.backplane(["plugin", "install", first, "--config", '{"a":1}']);
  const [first_binding] = await bound();
  await gateway.backplane([
    "binding",
    "set",
    first_binding!.binding_id,
    "--host-target",
    "--timeout",
    "5000",
  ]);
  rmSync(join(first, "tools/early.ts"));
  const { err } = await gateway.backplane(["plugin", "install", first]);
  expect(err).toContain(
    `${first_binding!.binding_id} was changed from ${first_binding!.package_version} to `,
  );
  expect(err).toContain(
    `trust this version: backplane binding set ${first_binding!.binding_id} --host-target`,
  );
  const after = await bound();
  expect(after).toHaveLength(1);
  expect(after[0]).toMatchObject({ config: { a: 1 }, policy: { timeout_ms: 5_000 } });
  expect(after[0]!.policy.host_target).toBeUndefined();
  expect((await gateway.backplane(["tool", "show", "early"])).err).toContain("tool.not_found");
  expect((await gateway.backplane(["tool", "show", "kept"])).exit).toBe(EXIT.ok);
});

test("suggests on `explain` the command that lets a call run without approval", async () => {
  const explain = async (tool: string) => (await gateway.backplane(["policy", "explain", tool])).err;
  expect(await explain("reads")).toBe("");
  expect(await explain("writes")).toBe("To run it without approval: backplane policy set risks.writes low\n");
  await gateway.backplane(["policy", "set", "tolerance.conversation", "none"]);
  expect(await explain("writes")).toContain(
    "risks.writes low && backplane policy set tolerance.conversation low\n",
  );
  await gateway.backplane(["policy", "set", "tolerance", "null"]);
});

test("suggests a policy command that works after the installation of a server", async () => {
  const server = writeFolder("desk", {
    "vai-plugin.toml": [
      'api_version = "vai.plugin.v1"\npackage_id = "acme/desk"\nversion = "1.0.0"\nname = "Desk"',
      '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "server.mjs"]',
    ].join("\n\n"),
    "server.mjs": SERVER,
  });
  const { err } = await gateway.backplane(["plugin", "install", server]);
  expect(err).toContain("All of them need approval when a model calls them.");
  const [, field] = /trust them: backplane policy set '([^']+)' low/.exec(err)!;
  expect(field).toBe("risks.mcp_desk_*");
  await gateway.backplane(["policy", "set", field!, "low"]);
  for (const tool of ["mcp_desk_stamp", "mcp_desk_fold"])
    expect((await gateway.backplane(["policy", "explain", tool])).out).toContain(`${tool} runs.`);
  expect((await gateway.backplane(["policy", "set", field!, "null"])).out).toContain(`Reset ${field}`);
});

const PAPER = [
  'api_version = "vai.plugin.v1"\npackage_id = "acme/paper"\nversion = "1.0.0"\nname = "Paper"',
  '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "server.mjs"]',
].join("\n\n");

test("suggests a policy for all tools of a server with a configured name, and for no tool of another server", async () => {
  const install = (name: string, package_id: string, server = SERVER) =>
    gateway.backplane([
      "plugin",
      "install",
      writeFolder(name, {
        "vai-plugin.toml": PAPER.replace("acme/paper", package_id),
        "server.mjs": server,
      }),
      "--bind",
      "--name",
      name,
    ]);
  expect((await install("post", "acme/paper")).err).toContain("policy set 'risks.mcp_post_*' low");
  const browser = SERVER.replace('"stamp"', '"tab_open"').replace('"fold"', '"tab_close"');
  expect((await install("browser", "acme/paper-browser", browser)).err).toContain(
    "'risks.mcp_browser_*' low",
  );
  await install("mail_room", "acme/paper-room");
  expect((await install("mail", "acme/paper-mail")).err).toContain("policy set 'risks.mcp_mail_fold' low");
});

test("suggests the current name of a tool whose server was renamed", async () => {
  const source = writeFolder("renamed", {
    "vai-plugin.toml": PAPER.replace("acme/paper", "acme/stationery"),
    "server.mjs": SERVER,
  });
  const { out } = await gateway.backplane(["plugin", "install", source, "--bind", "--name", "first"]);
  const rename = (name: string) => gateway.json(["binding", "set", findBindingId(out), "--name", name]);
  await rename("second-name");
  await rename("a-third-and-last");
  for (const former_name of ["mcp_first_fold", "mcp_second-name_fold", "mcp_stationery_fold"]) {
    const { err } = await gateway.backplane(["invoke", former_name]);
    expect(err).toContain("Did you mean mcp_a-third-and-last_fold?");
    expect(err).toContain("fix: backplane invoke mcp_a-third-and-last_fold");
  }
  expect((await gateway.backplane(["invoke", "mcp_unknown-server_fold"])).err).not.toContain("Did you mean");
});

test("suggests the command that sets a server's missing key, after the installation and later", async () => {
  const server = writeFolder("keyless", {
    "vai-plugin.toml": [
      'api_version = "vai.plugin.v1"\npackage_id = "acme/keyless"\nversion = "1.0.0"\nname = "Keyless"',
      '[runtime]\nprotocol = "mcp.stdio"\nentrypoint = ["node", "server.mjs"]',
    ].join("\n\n"),
    "server.mjs": 'console.error("Error: ACME_API_KEY is required"); process.exit(1);',
  });
  const hint = /To set ACME_API_KEY: .* --secret acme_api_key=acme_api_key/;
  expect((await gateway.backplane(["plugin", "install", server])).err).toMatch(hint);
  const refreshed = await gateway.backplane(["binding", "tools", "keyless", "--refresh"]);
  expect(refreshed.err).toMatch(hint);
  expect(refreshed.err).not.toContain("The binding has no tools");
});

test("refuses an untrusted in-process instrument and prints the command for its binding", async () => {
  const plugin = writeFolder("inside", {
    "META-INF/hefty-plugin.json": instrumentManifest("inside", "InProcess"),
    "provider.mjs": "export class Provider { instruments = []; initialize() {} }",
  });
  const { out, err } = await gateway.backplane(["plugin", "install", plugin]);
  expect(err).toContain("No tools are available yet (plugin.untrusted)");
  expect(err).toContain(`backplane binding set ${findBindingId(out)} --class worker`);
  const info = await gateway.backplane(["plugin", "info", "hefty/inside"]);
  expect(info.out).toMatch(/bind_\w+ +active +- +plugin\.untrusted/);
});

test("offers the skill tool once a skill is bound, and plugin info lists the skill", async () => {
  const skillTool = async () => (await gateway.backplane(["tool", "show", "skill"])).out;
  expect(await skillTool()).toMatch(/status: +hidden\nreason: +no package with skills is bound here\n/);
  const schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
  const kit = writeFolder("letters", {
    "plugin.json": JSON.stringify({ $schema: schema, name: "letters", version: "1.0.0" }),
    "skills/write/SKILL.md": "---\nname: write\ndescription: Writes letters.\n---\nDear …\n",
  });
  await gateway.backplane(["plugin", "install", kit]);
  expect(await skillTool()).toMatch(/status: +offered\n/);
  const info = await gateway.backplane(["plugin", "info", "letters/skills"]);
  expect(info.out).toMatch(/SKILL +DESCRIPTION\nwrite +Writes letters\.\n/);
});

test("reports the setting that allows a forbidden server address", async () => {
  const { out, err } = await gateway.backplane([
    "plugin",
    "install",
    "--mcp",
    "http://127.0.0.1:9/mcp",
    "near",
  ]);
  const fix =
    'fix: If you trust this destination, ask an operator to add "127.0.0.1:9" to egress.allow_private';
  expect(err).toContain(fix);
  expect((await gateway.backplane(["binding", "tools", findBindingId(out)])).err).toContain(fix);
});

test("reports instrument health and bindings with problems in `doctor`", async () => {
  const plugin = writeFolder("ill", {
    "META-INF/hefty-plugin.json": instrumentManifest("ill", "External"),
    "provider.mjs": `
      const one = (name, healthCheck, invoke = () => ({})) => ({ name, riskLevel: "ReadOnly", invoke, healthCheck,
        metadata: { name, category: "Application", description: name } });
      export class Provider {
        initialize() {
          this.instruments = [
            one("well"),
            one("slow", () => ({ status: "Degraded", message: "the disk is slow" })),
            one("dead", () => { throw new Error("no disk"); }),
            one("stuck", () => new Promise(() => {})),
            one("quits", undefined, () => process.exit(0)),
          ];
        }
      }`,
  });
  expect((await gateway.backplane(["plugin", "install", plugin])).err).toContain(
    "Tools: well, slow, dead, stuck, quits",
  );
  const { exit, out } = await gateway.backplane(["doctor", "--timeout", "1"]);
  expect(exit).toBe(EXIT.failed);
  expect(out).toMatch(/instrument well +ok +Healthy\n/);
  expect(out).toMatch(/instrument slow +degraded +the disk is slow\n +fix: backplane binding tools bind_/);
  expect(out).toMatch(/instrument dead +failed +no disk/);
  expect(out).toMatch(/instrument stuck +failed +/);
  expect(out).toMatch(/binding local\/files +degraded +failed to load: torn\n/);
  expect(out).toMatch(/binding hefty\/inside +degraded +plugin\.untrusted/);

  // Once the plugin has stopped, doctor does not start it; --probe does.
  expect((await gateway.backplane(["invoke", "quits"])).err).toContain("error[crashed]");
  const asleep = (await gateway.backplane(["doctor"])).out;
  for (const name of ["well", "dead", "stuck"])
    expect(asleep).toMatch(
      new RegExp(
        `instrument ${name} +ok +not running, last seen 20\\d\\d-.*; to start and check it: backplane doctor --probe`,
      ),
    );
  expect((await gateway.backplane(["doctor"])).out).toContain("not running, last seen");
  const probed = (await gateway.backplane(["doctor", "--probe", "--timeout", "5"])).out;
  expect(probed).toMatch(/instrument well +ok +Healthy\n/);
  expect(probed).toMatch(/instrument dead +failed +no disk/);
  expect((await gateway.backplane(["doctor"])).out).toMatch(/instrument well +ok +Healthy\n/);
});

test("lists the tools of a trusted folder and sanitizes its texts", async () => {
  const path = writeFolder("shop", {
    "tools/sells.ts": toolSource("low"),
    "tools/sells.js": toolSource("low"),
    "tools/torn_off.ts": 'throw new Error("\\u001b[2Jgone");',
  });
  const workspace = await gateway.backplane(["workspace", "show", path], { tty: true });
  const trusted = await gateway.backplane(["workspace", "trust", path, "--yes"]);
  expect(trusted.err).toMatch(/shop: to be trusted:\n +added +tools\//);
  expect(trusted.err).toContain("Tools: sells\n");
  expect(trusted.err).toContain("tools/sells.ts is left out: tools/sells.js already has the name sells.");
  expect(trusted.err.match(/gone/g)).toHaveLength(1);
  expect(workspace.out + trusted.out + trusted.err).not.toContain("\u001b[");
  await gateway.backplane(["workspace", "untrust", path, "--yes"]);
});

test("reports a missing workspace folder before prompting", async () => {
  const { exit, err } = await gateway.backplane(["workspace", "trust", join(root, "nowhere")]);
  expect([exit, err]).toEqual([EXIT.failed, expect.stringContaining("workspace.not_found")]);
});

test("refuses --signature for a source whose packages cannot be signed", async () => {
  for (const source of ["pypi:demo", "image:demo", "npm:demo"]) {
    const { exit, err } = await gateway.backplane(["plugin", "install", source, "--signature", "x.json"]);
    expect(exit).toBe(EXIT.usage);
    expect(err).toContain(`--signature is only for folders and archives; ${source} is not one of them.`);
  }
});

test("refuses a folder that is not a plugin and explains what may be missing", async () => {
  const refused = async (path: string) => {
    const { exit, err } = await gateway.backplane(["plugin", "install", path]);
    expect(exit).toBe(EXIT.failed);
    return err;
  };
  expect(await refused(join(root, "files", "tools"))).toContain("specify the folder that contains it");
  const schema = '"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"';
  expect(await refused(writeFolder("kit", { "plugin.json": '{"name":"kit"}' }))).toContain(schema);
  const old_kit = writeFolder("old-kit", {
    "plugin.json": '{"$schema":"https://agent-plugins.org/1","name":"kit"}',
  });
  expect(await refused(old_kit)).toContain(schema);
});

const SERVER = `
import { createInterface } from "node:readline";
const tool = (name) => ({ name, description: name, inputSchema: { type: "object" } });
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "desk", version: "1" } },
  "tools/list": { tools: [tool("stamp"), tool("fold")] },
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method];
  const reply = result === undefined ? { error: { code: -32601, message: "unknown" } } : { result };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...reply }) + "\\n");
});
`;
