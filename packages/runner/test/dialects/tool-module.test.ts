import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { DescribeRequest, RunOutcome } from "@backplane/ports";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { buildToolHost } from "../../../../scripts/build-tool-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { describeToolFiles as describeTools } from "../../src/dialects/tool-module.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { type RequestChange, requestOf } from "../support/request.ts";
import { createTestRunner, type TestRunner } from "../support/runner.ts";

const PROGRAM = fileURLToPath(new URL("../../../sdk/dist/tool-host.mjs", import.meta.url));

beforeAll(async () => {
  await buildToolHost(PROGRAM);
});

function createToolFolder(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), "tool-module-"));
  // The sandbox runs as another user, which must be able to read the folder.
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, "tools"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, "tools", name), text);
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const tool = (export_id: string, change: RequestChange = {}): RequestChange => ({
  protocol: "module.tools",
  entrypoint: ["node"],
  export_id,
  class: "isolated",
  timeout_ms: 30_000,
  ...change,
});

const describeRequest = (): DescribeRequest => requestOf(tool("*"));
const textOf = ({ result, error }: RunOutcome): string | undefined =>
  (result as { content?: { text?: string }[] } | null)?.content?.[0]?.text ?? error?.message;

const LOOK = `
import { readFileSync, readdirSync } from "node:fs";
export default {
  description: "Reads a file.",
  defaultRiskLevel: "low" as const,
  category: "files",
  async execute(input: { path: string }, ctx: { workingDir: string }) {
    try {
      return { content: readFileSync(input.path, "utf8"), isError: false };
    } catch (error) {
      return { content: (error as Error).message + " in " + ctx.workingDir + " with " + readdirSync("/").join(), isError: true };
    }
  },
};
`;

test("describes tool files as exports with their schemas", async () => {
  const folder = createToolFolder({
    "look.ts": LOOK,
    "host_open.ts": "export default {};",
    "bad name!.js": "throw 1;",
  });
  const test_runner = createConfinedTestRunner({ folder, programs: { tool_files: PROGRAM } });
  const { exports, schemas, info } = await test_runner.runner.describe!(describeRequest());
  for (const item of exports) ToolExportSchema.parse(item);
  expect(
    exports.map(({ id, tool: { risk, target, category, native_name } }) => [
      id,
      risk,
      target,
      category,
      native_name,
    ]),
  ).toEqual([
    ["bad_name_", "medium", "sandbox", undefined, "bad name!"],
    ["host_open", "medium", "host", undefined, undefined],
    ["look", "low", "sandbox", "files", undefined],
  ]);
  expect(exports[0]!.tool.load_error).toContain("tools/bad name!.js");
  expect(exports[2]).toMatchObject({ description: "Reads a file.", tool: { effect_class: "read_only" } });
  expect(schemas[exports[2]!.tool.input_schema!]).toEqual({ type: "object", properties: {} });
  expect(info).toEqual({
    files: { bad_name_: "tools/bad name!.js", host_open: "tools/host_open.ts", look: "tools/look.ts" },
  });
});

verifies(
  "tools.target",
  "hides the host from a sandboxed tool and shows it to a tool on the host",
  async () => {
    const folder = createToolFolder({ "look.ts": LOOK });
    const secret = join(folder, "outside.txt");
    writeFileSync(secret, "of the host");
    const test_runner = createConfinedTestRunner({ folder, programs: { tool_files: PROGRAM } });
    const inside = await test_runner.run(tool("look", { input: { path: secret } }));
    expect(inside.status).toBe("failed");
    expect(textOf(inside)).toMatch(/ENOENT.* in \/plugin with .*plugin/);
    const outside = await test_runner.run(tool("look", { input: { path: secret }, grant: { host: true } }));
    expect([outside.status, textOf(outside)]).toEqual(["succeeded", "of the host"]);
    const self = await test_runner.run(tool("look", { input: { path: "/plugin/tools/look.ts" } }));
    expect(textOf(self)).toBe(readFileSync(join(folder, "tools/look.ts"), "utf8"));
  },
);

const COUNTER =
  "let calls = 0; export default { execute: () => ({ content: String(++calls) + ' ' + process.pid }) };";

const countTwice = async (test_runner: TestRunner, change: RequestChange) => {
  const first = textOf(await test_runner.run(tool("count", change)));
  const second = textOf(await test_runner.run(tool("count", change)));
  return [first, second].map((text) => text?.split(" ")[0]);
};

test("uses an isolated process once and keeps a worker", async () => {
  const folder = createToolFolder({ "count.js": COUNTER });
  const test_runner = createConfinedTestRunner({ folder, programs: { tool_files: PROGRAM } });
  expect(await countTwice(test_runner, {})).toEqual(["1", "1"]);
  expect(await countTwice(test_runner, { class: "worker", pool_key: "one" })).toEqual(["1", "2"]);
});

test("reports a missing host program", async () => {
  const test_runner = createTestRunner({ folder: createToolFolder({ "count.js": COUNTER }) });
  const outcome = await test_runner.run(tool("count", { class: "worker" }));
  expect(outcome.error).toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("no host program for"),
  });
});

test("truncates texts that are too long, so that one tool does not affect the others", () => {
  const { exports } = describeTools(
    {
      tools: [
        {
          file: "tools/x.ts",
          name: "x".repeat(100),
          description: "d".repeat(9_000),
          input_schema: {},
          risk: "high",
          category: "c".repeat(100),
          target: "sandbox",
          load_error: "e".repeat(9_000),
        },
      ],
      warnings: [],
    },
    { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] },
  );
  expect(() => ToolExportSchema.parse(exports[0])).not.toThrow();
});
