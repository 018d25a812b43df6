/** Tool files through the whole house: a folder becomes tools, in the real sandbox, by the real commands. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { eventually } from "../support/processes.ts";
import { verifies } from "../support/verifies.ts";

let gateway: TestGateway;
let base: string;
beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), "backplane-tool-files-"));
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway.dispose();
  rmSync(base, { recursive: true, force: true });
});

function folder(name: string, files: Record<string, string>): string {
  const path = join(base, name);
  mkdirSync(join(path, "tools"), { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

interface Called {
  status: string;
  error: { code: string; message: string } | null;
  tool_result: {
    content: { type: string; text?: string }[];
    status?: string;
    yield_to_user?: boolean;
  } | null;
}

async function call(export_id: string, input: unknown = {}): Promise<Called> {
  const { body } = await gateway.http<Called>("POST", "/v1/invocations?wait=60", { export_id, input });
  return body;
}

async function textOf(export_id: string, input?: unknown): Promise<string | undefined> {
  return (await call(export_id, input)).tool_result?.content[0]?.text;
}

const says = (text: string) =>
  `export default { defaultRiskLevel: "low", execute: () => ({ content: ${JSON.stringify(text)} }) };\n`;

async function cli(...args: string[]) {
  const result = await gateway.cli(...args);
  expect(result.code, `${args.join(" ")}\n${result.stderr}`).toBe(0);
  return result;
}

const NOTES = `
import type { ToolContext, ToolExecutionResult } from "@vellumai/plugin-api";
export default {
  description: "Search saved notes for a phrase.",
  defaultRiskLevel: "low" as const,
  category: "notes",
  input_schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
  async execute(input: Record<string, unknown>, ctx: ToolContext): Promise<ToolExecutionResult> {
    return { content: "looked for " + input.query, isError: false, status: "complete" };
  },
};
`;

interface Listed {
  items: {
    export_id: string;
    package_id: string;
    description: string;
    export: { tool: Record<string, unknown> };
  }[];
}

verifies(
  ["tools.file", "tools.fields", "tools.input", "tools.isolated-failure"],
  "a folder is installed and its tools are there, each with its fields or its error",
  async () => {
    const path = folder("notes", {
      "tools/search_notes.ts": NOTES,
      "tools/empty.ts": "export default {};",
      "tools/throws.ts": 'throw new Error("at import");',
      "tools/syntax.ts": "export default {",
      "tools/schema.js": 'export default { input_schema: { type: "nonsense" } };',
    });
    const { stdout, stderr } = await cli("plugin", "install", path);
    expect(stdout).toContain("Installed local/notes@0.0.0-d");
    expect(stderr).toContain("Tools: empty, schema, search_notes, syntax, throws");
    const { body } = await gateway.http<Listed>("GET", "/v1/plugin-tools");
    const tools = new Map(body.items.map((item) => [item.export_id, item]));
    expect(tools.get("search_notes")).toMatchObject({
      package_id: "local/notes",
      description: "Search saved notes for a phrase.",
      export: { tool: { risk: "low", category: "notes", target: "sandbox" } },
    });
    expect(tools.get("empty")?.export.tool).toMatchObject({ risk: "medium", target: "sandbox" });
    expect(tools.get("throws")?.export.tool.load_error).toContain("at import");

    expect(await textOf("search_notes", { query: "tea" })).toBe("looked for tea");
    expect((await call("search_notes", { query: "tea" })).tool_result?.status).toBe("complete");
    expect(await call("search_notes", {})).toMatchObject({ error: { code: "input.invalid" } });
    expect(await textOf("empty")).toContain("no execute implementation");
    expect((await call("throws")).error).toMatchObject({
      code: "tool.load_failed",
      message: expect.stringContaining("at import"),
    });
    expect((await call("syntax")).error?.code).toBe("tool.load_failed");
    expect((await call("schema")).error?.message).toContain("input_schema");
  },
);

const CONTEXT = `export default {
  defaultRiskLevel: "low",
  execute(input, { signal, onOutput, ...rest }) {
    onOutput("working");
    return { content: JSON.stringify({ ...rest, aborted: signal.aborted }), status: "seen", yieldToUser: true };
  },
};`;

verifies("tools.context", "a turn's tool knows its conversation, streams, and can end the turn", async () => {
  await cli("plugin", "install", folder("context", { "tools/context.js": CONTEXT }));
  const { body } = await gateway.http<{ id: string; status: string; iterations: number }>(
    "POST",
    "/v1/runs?wait=60",
    { session_id: "talk", input: { text: "/tool context {}" } },
  );
  // One model call: the tool gave the turn back.
  expect([body.status, body.iterations]).toEqual(["completed", 1]);
  const { body: calls } = await gateway.http<{ items: (Called & { id: string })[] }>(
    "GET",
    "/v1/invocations?session_id=talk",
  );
  const { id, tool_result } = calls.items[0]!;
  expect(tool_result).toMatchObject({ status: "seen", yield_to_user: true });
  expect(JSON.parse(tool_result!.content[0]!.text!)).toEqual({
    conversationId: "talk",
    requestId: body.id,
    workingDir: "/plugin",
    assistantId: "proj_default",
    isInteractive: false,
    config: {},
    secrets: {},
    aborted: false,
  });
  const events = await cli("invocation", "events", id);
  expect(events.stdout).toContain("working");
});

verifies(
  "tools.target",
  "a tool that asks for the host is refused until the admin allows its package",
  async () => {
    const here = "export default { execute: () => ({ content: process.cwd() }) };";
    const asks = 'export default { executionTarget: "host", execute: () => ({ content: process.cwd() }) };';
    const path = folder("hosted", {
      "package.json": JSON.stringify({ name: "@acme/hosted", version: "1.2.0" }),
      "tools/host_where.js": here,
      "tools/asks_where.js": asks,
      "tools/inside_where.js": here,
    });
    const { stdout } = await cli("plugin", "install", path, "--json");
    const { bindings } = JSON.parse(stdout) as { bindings: { binding_id: string }[] };
    const id = bindings[0]!.binding_id;
    for (const name of ["host_where", "asks_where"]) {
      expect((await call(name)).error).toMatchObject({ code: "target.host_forbidden" });
    }
    expect(await textOf("inside_where")).toBe("/plugin");

    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "operator",
      role: "admin",
      scopes: ["bindings:write", "bindings:read"],
    });
    const allowed = await gateway.http(
      "PATCH",
      `/v1/plugin-bindings/${id}`,
      { policy: { host_target: true } },
      { authorization: `Bearer ${key.body.token}` },
    );
    expect(allowed.status).toBe(403);

    await cli("binding", "set", id, "--host-target");
    expect(await textOf("host_where")).toBe(process.cwd());
    expect(await textOf("asks_where")).toBe(process.cwd());
    expect(await textOf("inside_where")).toBe("/plugin");
    await cli("binding", "set", id, "--no-host-target");
    expect((await call("host_where")).error?.code).toBe("target.host_forbidden");
  },
);

interface Folder {
  id: string;
  path: string;
  state: string;
  changes: { path: string; change: string }[];
  errors: Record<string, string>;
  digest: string;
}

const folders = async () => (await gateway.http<{ items: Folder[] }>("GET", "/v1/workspaces")).body.items;

verifies(
  "tools.workspace-trust",
  "tools of a workspace load once it is trusted, and edits wait and are shown",
  async () => {
    const path = folder("place", { "tools/place.ts": says("as reviewed"), "other.txt": "not looked at" });
    expect((await call("place")).error?.code).toBe("export.not_found");
    const shown = await cli("workspace", "show", path);
    expect(shown.stdout).toContain("1 files, not trusted");
    expect(shown.stdout).toContain("as reviewed");
    // Nobody can be asked here, and it is the host's disk: a key does not get to it, whatever its role.
    expect((await gateway.cli("workspace", "trust", path)).code).toBe(2);
    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "all",
      role: "owner",
      scopes: ["admin"],
    });
    const by = { authorization: `Bearer ${key.body.token}` };
    expect((await gateway.http("POST", "/v1/workspaces", { path }, by)).status).toBe(403);
    expect((await gateway.http("GET", "/v1/workspaces", undefined, by)).status).toBe(403);
    await cli("workspace", "trust", path, "--yes");
    expect(await textOf("place")).toBe("as reviewed");

    writeFileSync(join(path, "tools/place.ts"), says("edited"));
    writeFileSync(join(path, "tools/more.ts"), says("more"));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await textOf("place")).toBe("as reviewed");
    expect((await call("more")).error?.code).toBe("export.not_found");
    const [waiting] = (await folders()).filter((each) => each.path === path);
    expect(waiting).toMatchObject({
      state: "changed",
      changes: [
        { path: "tools/more.ts", change: "added" },
        { path: "tools/place.ts", change: "changed" },
      ],
    });
    const again = await cli("workspace", "show", path);
    expect(again.stdout).toContain("trusted, and changed since");
    expect(again.stdout).toContain("edited");
    // Not what was reviewed: nothing is trusted.
    const stale = await gateway.http("POST", "/v1/workspaces", { path, digest: waiting!.digest });
    expect([stale.status, (stale.body as { error: { code: string } }).error.code]).toEqual([
      409,
      "workspace.changed",
    ]);
    expect(await textOf("place")).toBe("as reviewed");

    await cli("workspace", "trust", path, "--yes");
    expect([await textOf("place"), await textOf("more")]).toEqual(["edited", "more"]);

    await cli("workspace", "untrust", path, "--yes");
    expect((await call("place")).error?.code).toBe("export.not_found");
    expect(await folders()).toEqual([]);
  },
);

/** By the list of tools, and not by a call, which takes its own time. */
async function until(name: string, wanted: string): Promise<number> {
  return await eventually(
    async () => {
      const { body } = await gateway.http<Listed>("GET", "/v1/plugin-tools");
      return body.items.find((item) => item.export_id === name)?.description === wanted;
    },
    20_000,
    `${name} is ${wanted}`,
  );
}

const USUAL_START_MS = 50;

function startOfNode(): number {
  const times = Array.from({ length: 3 }, () => {
    const from = performance.now();
    spawnSync(process.execPath, ["-e", "0"]);
    return performance.now() - from;
  });
  return times.sort((a, b) => a - b)[1]!;
}

const described = (words: string) =>
  `export default { description: "${words}", defaultRiskLevel: "low", execute: () => ({ content: "${words}" }) };\n`;

verifies(
  "tools.hot",
  "a save is loaded under 1 s, and a broken one keeps the last good version",
  async () => {
    const path = folder("live", { "tools/live.ts": described("first"), "tools/beside.ts": says("beside") });
    await cli("workspace", "trust", path, "--watch", "--yes");
    expect(await textOf("live")).toBe("first");
    const took: number[] = [];
    for (let save = 0; save < 5; save++) {
      writeFileSync(join(path, "tools/live.ts"), described(`save ${save}`));
      const ms = await until("live", `save ${save}`);
      took.push(ms / Math.max(1, startOfNode() / USUAL_START_MS));
    }
    // On a machine that starts Node in its usual time; what other tests take of it is measured and allowed for.
    expect(Math.min(...took)).toBeLessThan(1_000);

    writeFileSync(join(path, "tools/live.ts"), "export default { description: ");
    const told = async () =>
      (await folders())[0]?.errors["tools/live.ts"]?.includes("tools/live.ts") ?? false;
    await eventually(told, 20_000, "the error is shown");
    expect(await textOf("live")).toBe("save 4");
    // Others go on meanwhile.
    writeFileSync(join(path, "tools/beside.ts"), described("beside two"));
    await until("beside", "beside two");
    expect([await textOf("live"), await textOf("beside")]).toEqual(["save 4", "beside two"]);

    writeFileSync(join(path, "tools/live.ts"), described("mended"));
    await until("live", "mended");
    const mended = async () => Object.keys((await folders())[0]?.errors ?? {}).length === 0;
    await eventually(mended, 20_000, "the error is gone");
    expect(await textOf("live")).toBe("mended");
  },
);

verifies(
  "tools.hot",
  "an editable install follows its folder, over a restart of the gateway too",
  async () => {
    const path = folder("editable", {
      "package.json": JSON.stringify({ name: "edited-plugin", version: "2.0.0" }),
      "tools/edited.ts": described("one"),
      "words.ts": "export const word: string = 'old';",
    });
    const { stdout } = await cli("plugin", "install", path, "--editable");
    expect(stdout).toMatch(/Linked .* as local\/edited-plugin@2\.0\.0-d/);
    expect(await textOf("edited")).toBe("one");
    writeFileSync(join(path, "tools/edited.ts"), described("two"));
    await until("edited", "two");
    await gateway.stop();
    writeFileSync(join(path, "tools/edited.ts"), described("three"));
    gateway = await startTestGateway({ home: gateway.home });
    await until("edited", "three");
    expect(await textOf("edited")).toBe("three");
  },
);
