import { type JsonObject, TOOL_DESCRIBE_MS } from "@backplane/contract";
import { grantWith } from "@backplane/test-kit/grant-with";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { describeFiles } from "../../src/host/tool-files/describe-files.ts";
import { startToolHost, TOOL_HOST } from "./tool-host.ts";

const NOTES = `
import type { ToolContext, ToolExecutionResult } from "@vellumai/plugin-api";
import * as api from "@vellumai/plugin-api";
import { loud } from "../loud";

enum Case { Lower, Upper }
class Box { constructor(private readonly text: string) {} open() { return this.text; } }

export default {
  description: "Search saved notes.",
  defaultRiskLevel: "low" as const,
  category: "notes",
  input_schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
  async execute(input: Record<string, unknown>, ctx: ToolContext): Promise<ToolExecutionResult> {
    console.log("printed, and not a frame");
    const text = loud(new Box(String(input.query)).open());
    return { content: \`searched \${ctx.conversationId} for \${text} \${Case[Case.Upper]} \${typeof api}\`, isError: false };
  },
};
`;
const LOUD = "export const loud = (text: string): string => text + '!';";

test("runs a TypeScript file with an enum, a helper and an import of the types", async () => {
  const host = await startToolHost({ "tools/search_notes.ts": NOTES, "loud.ts": LOUD });
  expect(await host.describe()).toEqual({
    tools: [
      {
        file: "tools/search_notes.ts",
        name: "search_notes",
        description: "Search saved notes.",
        input_schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
        risk: "low",
        category: "notes",
        target: "sandbox",
        load_error: null,
      },
    ],
    warnings: [],
  });
  const { status, result } = await host.call("search_notes", { query: "tea" }, { session_id: "sess_1" });
  expect(status).toBe("succeeded");
  expect(result.content).toEqual([{ type: "text", text: "searched sess_1 for tea! Upper object" }]);
});

const FORMS = {
  "tools/empty.ts": "export default {};",
  "tools/plain.js": 'export default { execute: () => ({ content: "plain", isError: false }) };',
  "tools/esm.mjs": 'export default { execute: () => ({ content: "esm", isError: false }) };',
  "tools/common.cjs": 'module.exports = { execute: () => ({ content: "common", isError: false }) };',
  "tools/types.d.ts": "export type X = 1;",
  "tools/.hidden.ts": "throw new Error('never')",
  "tools/own.ts": 'export default { name: "chosen", execute: () => ({ content: "own", isError: false }) };',
};

verifies("tools.file", "reads a default export as a tool with the documented defaults", async () => {
  const host = await startToolHost(FORMS);
  const { tools } = await host.describe();
  expect(tools.map(({ name }) => name)).toEqual(["common", "empty", "esm", "chosen", "plain"]);
  expect(tools.find(({ name }) => name === "empty")).toEqual({
    file: "tools/empty.ts",
    name: "empty",
    description: "",
    input_schema: { type: "object", properties: {} },
    risk: "medium",
    category: null,
    target: "sandbox",
    load_error: null,
  });
  const empty = await host.call("empty");
  expect(empty.status).toBe("failed");
  expect(empty.result.content[0]?.text).toContain("no execute implementation");
  for (const [name, text] of [
    ["plain", "plain"],
    ["esm", "esm"],
    ["common", "common"],
    ["chosen", "own"],
  ] as const) {
    expect((await host.call(name)).result.content).toEqual([{ type: "text", text }]);
  }
  expect((await host.call("own")).result.content[0]?.text).toContain("no tool file named own");
});

const EXECUTE = 'execute: () => ({ content: "loaded", isError: false })';
const IMPORTS = {
  "tools/named.ts": `import { ToolContext, type ToolDefinition } from "@vellumai/plugin-api";
    let seen: ToolContext | undefined;
    export default { ${EXECUTE} } satisfies ToolDefinition;`,
  "tools/dynamic.js": `const api = await import("@vellumai/plugin-api"); export default { ${EXECUTE}, ...api.none };`,
  "tools/required.cjs": `const api = require("@vellumai/plugin-api"); module.exports = { ${EXECUTE}, ...api.none };`,
};

verifies("tools.file", "resolves @vellumai/plugin-api, however a file imports it", async () => {
  const host = await startToolHost(IMPORTS);
  const { tools } = await host.describe();
  expect(tools.map(({ load_error }) => load_error)).toEqual([null, null, null]);
  for (const { name } of tools)
    expect((await host.call(name)).result.content).toEqual([{ type: "text", text: "loaded" }]);
});

const BROKEN = {
  "tools/a_throws.ts": 'throw new Error("at import");',
  "tools/b_syntax.ts": "export default { description: ;",
  "tools/c_exits.ts": "process.exit(0);",
  "tools/d_dies_later.ts": 'setTimeout(() => { throw new Error("late") }, 200); export default {};',
  "tools/e_killed.ts": 'process.kill(process.pid, "SIGKILL");',
  "tools/f_fields.ts": 'export default { defaultRiskLevel: "extreme" };',
  "tools/g_nothing.ts": "export const tool = {};",
  "tools/h_missing.ts": 'import "./not-there"; export default {};',
  "tools/y_poison.ts": "globalThis.spoiled = true; export default {};",
  "tools/z_works.ts":
    'if (globalThis.spoiled) throw new Error("spoiled"); export default { execute: () => ({ content: "works", isError: false }) };',
};

verifies(
  "tools.isolated-failure",
  "lists a failing file with its error and leaves the other files unaffected",
  async () => {
    const host = await startToolHost(BROKEN);
    const errors = Object.fromEntries(
      (await host.describe()).tools.map(({ name, load_error }) => [name, load_error]),
    );
    expect(errors).toEqual({
      a_throws: expect.stringContaining("Error: at import"),
      b_syntax: expect.stringMatching(/tools\/b_syntax\.ts: .*(ParseError|SyntaxError|Unexpected token)/s),
      c_exits: expect.stringContaining("terminated the process (exit code 0)"),
      d_dies_later: null,
      e_killed: expect.stringContaining("terminated the process (signal SIGKILL)"),
      f_fields: expect.stringContaining('defaultRiskLevel must be one of low, medium, high, not "extreme"'),
      g_nothing: expect.stringContaining("no default export"),
      h_missing: expect.stringContaining("not-there"),
      y_poison: null,
      z_works: null,
    });
    expect((await host.call("z_works")).result.content).toEqual([{ type: "text", text: "works" }]);
    expect((await host.call("a_throws")).result.content[0]?.text).toContain("at import");
  },
);

verifies(
  "tools.isolated-failure",
  "describes the other files within the time limit when several imports hang",
  async () => {
    // Blocks the thread like an endless loop, but uses no CPU time.
    const blocks = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
    const files = {
      "tools/a_blocks.ts": blocks,
      "tools/b_works.ts": "export default {};",
      "tools/c_waits.ts": "await new Promise(() => {}); export default {};",
      "tools/d_blocks.ts": blocks,
      "tools/e_spins.ts": "for (;;);",
      "tools/f_works.ts": "export default {};",
    };
    const { folder } = await startToolHost(files);
    const began = Date.now();
    const described = await describeFiles(Object.keys(files), {
      command: [process.execPath, TOOL_HOST, "report", folder],
      import_ms: 6_000,
      total_ms: TOOL_DESCRIBE_MS,
    });
    const errors = described.map(({ load_error }) => load_error);
    // The gateway waits 30 s for a description.
    expect(Date.now() - began).toBeLessThan(29_000);
    const unfinished = expect.stringContaining("its import does not finish");
    expect(errors).toEqual([unfinished, null, unfinished, unfinished, unfinished, null]);
  },
  60_000,
);

test("gives a duplicate name to the first file and leaves out the second with a warning", async () => {
  const host = await startToolHost({
    "tools/a.ts": 'export default { name: "twice", execute: () => ({ content: "a" }) };',
    "tools/twice.ts": 'export default { execute: () => ({ content: "b" }) };',
  });
  const { tools, warnings } = await host.describe();
  expect(tools.map(({ file }) => file)).toEqual(["tools/a.ts"]);
  expect(warnings).toEqual(["tools/twice.ts is left out: tools/a.ts already has the name twice."]);
});

const CONTEXT = `export default { async execute(input, ctx) {
  ctx.onOutput("one");
  ctx.onOutput("two");
  const { signal, onOutput, ...rest } = ctx;
  if (input.wait) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  return {
    content: JSON.stringify({ ...rest, aborted: signal.aborted }),
    isError: input.error === true,
    status: "truncated",
    yieldToUser: true,
    contentBlocks: [{ type: "image", data: "AA==", mimeType: "image/png" }],
  };
} };`;

verifies(
  "tools.context",
  "passes the context to a call, streams its output and returns its whole result",
  async () => {
    const host = await startToolHost({ "tools/look.js": CONTEXT });
    const context = {
      config: { unit: "mm" },
      secrets: { token: "t" },
      session_id: "sess_1",
      run_id: "run_1",
      project_id: "proj_default",
      interactive: true,
    };
    const { status, result } = await host.call("look", {}, context);
    expect(host.events).toEqual([
      { type: "output", text: "one" },
      { type: "output", text: "two" },
    ]);
    expect(status).toBe("succeeded");
    expect(result).toEqual({
      content: [
        { type: "text", text: expect.any(String) },
        { type: "image", data: "AA==", mimeType: "image/png" },
      ],
      is_error: false,
      retryable: false,
      status: "truncated",
      yield_to_user: true,
    });
    expect(JSON.parse(result.content[0]!.text!)).toEqual({
      conversationId: "sess_1",
      workingDir: host.folder,
      requestId: "run_1",
      assistantId: "proj_default",
      isInteractive: true,
      config: { unit: "mm" },
      secrets: { token: "t" },
      aborted: false,
    });
    const failed = await host.call("look", { error: true });
    expect([failed.status, failed.result.is_error, failed.result.yield_to_user]).toEqual([
      "failed",
      true,
      true,
    ]);
  },
);

verifies("tools.context", "passes every field of the context, even outside a turn", async () => {
  const host = await startToolHost({ "tools/look.js": CONTEXT });
  const readContext = async (context: JsonObject) =>
    JSON.parse((await host.call("look", {}, context)).result.content[0]!.text!) as object;
  // A direct call has neither a session nor a run, and a credential of the whole organization has no project.
  expect(await readContext({ trace_id: "tr_9", org_id: "org_9" })).toMatchObject({
    conversationId: "inv_1",
    requestId: "tr_9",
    assistantId: "org_9",
    isInteractive: false,
  });
  expect(await readContext({ scratch_dir: "/scratch" })).toMatchObject({ workingDir: "/scratch" });
  const mounts = [{ source: "/home/acme", target: "/workspace", writable: false }];
  const grant = grantWith({ mounts }) as unknown as JsonObject;
  expect(await readContext({ scratch_dir: "/scratch", grant })).toMatchObject({ workingDir: "/workspace" });
});

verifies("tools.context", "aborts the signal of a cancelled call", async () => {
  const host = await startToolHost({ "tools/look.js": CONTEXT });
  const waiting = host.call("look", { wait: true });
  await expect.poll(() => host.events.length).toBe(2);
  host.cancel("inv_1");
  expect(JSON.parse((await waiting).result.content[0]!.text!)).toMatchObject({ aborted: true });
});

test("fails a call with an invalid result and explains why", async () => {
  const host = await startToolHost({
    "tools/text.js": 'export default { execute: () => "just text" };',
    "tools/throws.js": 'export default { execute() { throw new Error("no luck") } };',
    "tools/blocks.js": 'export default { execute: () => ({ content: "", contentBlocks: [1] }) };',
  });
  const readText = async (name: string) => (await host.call(name)).result.content[0]?.text;
  expect(await readText("text")).toContain("return an object with content");
  expect(await readText("throws")).toBe("no luck");
  expect(await readText("blocks")).toContain("contentBlocks must be a list");
});

verifies("tools.fields", "derives where a tool runs from its field or its name", async () => {
  const host = await startToolHost({
    "tools/host_open.ts": "export default {};",
    "tools/computer_use_click.ts": "export default {};",
    "tools/host_but_not.ts": 'export default { executionTarget: "sandbox" };',
    "tools/asks.ts": 'export default { executionTarget: "host" };',
    "tools/plain.ts": "export default {};",
  });
  const targets = (await host.describe()).tools.map(({ name, target }) => [name, target]);
  expect(Object.fromEntries(targets)).toEqual({
    host_open: "host",
    computer_use_click: "host",
    host_but_not: "sandbox",
    asks: "host",
    plain: "sandbox",
  });
});
