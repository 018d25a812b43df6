/** The published Codex and OpenCode as harnesses, in the sandbox, with a scripted model behind the gateway's endpoints. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Approval, Block, Invocation, Run } from "@backplane/contract";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { installAgent } from "../support/agent-programs.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { eventually } from "../support/processes.ts";
import {
  type AgentModel,
  type AgentModelRequest,
  startAgentModel,
  textOf,
} from "../support/scripted-agent-model.ts";
import { verifies } from "../support/verifies.ts";

const INSTALL_MS = 600_000;
const LIMIT_MS = 180_000;
/** OpenCode uses about 600 MB, which is more than a sandbox has by default. */
const MEMORY_BYTES = 1024 * 1024 * 1024;

let gateway: TestGateway;
let model: AgentModel;
const workspace = mkdtempSync(join(tmpdir(), "backplane-agents-"));
const notes = join(workspace, "notes.txt");

beforeAll(async () => {
  const programs = { codex: await installAgent("codex"), opencode: await installAgent("opencode") };
  model = await startAgentModel();
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  writeFileSync(
    join(home, "backplane.toml"),
    `[sandbox.package_limits."backplane/opencode"]\nmemory_bytes = ${MEMORY_BYTES}\n`,
  );
  gateway = await startTestGateway({ home });
  const config = { base_url: model.base_url, model: "scripted", timeout_s: 600, allow_private: true };
  await gateway.http("POST", "/api/llm-providers", { id: "main", plugin: "llm-openai", config });
  await gateway.http("PATCH", "/api/llm-providers/active", { name: "main" });
  await install("hello-tool");
  for (const [name, folder] of Object.entries(programs)) {
    const mounts = ["--mount", `${folder}:/opt/${name}`, "--mount", `${workspace}:/workspace:rw`];
    await install(name, ...mounts, "--config", JSON.stringify({ model: "main/scripted" }));
  }
}, INSTALL_MS);
afterAll(async () => {
  await gateway?.dispose();
  await model?.close();
  rmSync(workspace, { recursive: true });
});
beforeEach(() => {
  // Permissions that a folder grants itself must have no effect.
  mkdirSync(join(workspace, ".codex/rules"), { recursive: true });
  writeFileSync(join(workspace, ".codex/config.toml"), 'approval_policy = "never"\n');
  const rule =
    'prefix_rule(pattern = ["bash"], decision = "allow")\nprefix_rule(pattern = ["echo"], decision = "allow")\n';
  writeFileSync(join(workspace, ".codex/rules/default.rules"), rule);
  writeFileSync(join(workspace, "opencode.json"), JSON.stringify({ permission: "allow" }));
  writeFileSync(notes, "first line\n");
  // The users of sandboxes are not the user of this test.
  chmodSync(workspace, 0o777);
  chmodSync(notes, 0o666);
  model.requests.length = 0;
});

async function install(name: string, ...flags: string[]): Promise<void> {
  const { code, stderr } = await gateway.cli(
    "plugin",
    "install",
    resolve("examples", name),
    "--bind",
    ...flags,
  );
  if (code !== 0) throw new Error(stderr);
}

type Answer = "approve" | "reject";

/** Starts a run and answers its approval requests until it has ended. */
async function converse(
  session_id: string,
  harness: string | null,
  text: string,
  response: Answer = "approve",
): Promise<{ run: Run; approvals: Approval[] }> {
  const body = {
    session_id,
    input: { text },
    ...(harness === null ? {} : { harness: { export_id: harness } }),
  };
  const started = await gateway.http<Run>("POST", "/v1/runs", body);
  expect(started).toMatchObject({ status: 202 });
  return await finish(started.body.id, response);
}

async function finish(id: string, response: Answer): Promise<{ run: Run; approvals: Approval[] }> {
  const approvals: Approval[] = [];
  let run: Run | null = null;
  await eventually(
    async () => {
      for (const approval of await pendingApprovals()) {
        approvals.push(approval);
        await gateway.http("POST", `/v1/approvals/${approval.id}:answer`, { response });
      }
      run = (await gateway.http<Run>("GET", `/v1/runs/${id}`)).body;
      return run.status !== "running";
    },
    LIMIT_MS,
    "the run ends",
  );
  return { run: run!, approvals };
}

async function pendingApprovals(): Promise<Approval[]> {
  return (await gateway.http<{ items: Approval[] }>("GET", "/v1/approvals?status=pending")).body.items;
}

async function nextApproval(after?: string): Promise<Approval> {
  let approval: Approval | undefined;
  await eventually(
    async () => {
      approval = (await pendingApprovals()).find(({ id }) => id !== after);
      return approval !== undefined;
    },
    LIMIT_MS,
    "a request for approval",
  );
  return approval!;
}

async function blocksOf(session_id: string): Promise<Block[]> {
  const { head_chain_id } = (
    await gateway.http<{ head_chain_id: string }>("GET", `/v1/sessions/${session_id}`)
  ).body;
  return (await gateway.http<{ items: Block[] }>("GET", `/v1/chains/${head_chain_id}/blocks?limit=500`)).body
    .items;
}

const kindsOf = (blocks: readonly Block[]) =>
  blocks.map(({ kind, name }) => (name === undefined ? kind : `${kind} ${name}`));

const AGENTS = {
  codex: {
    command: (cmd: string) => use("exec_command", { cmd }),
    edit: use("exec_command", { cmd: createPatch("first line", "edited line") }),
    greet: use("mcp__backplane__hello", { name: "Ada" }),
    recorded: { command: "shell", edit: "apply_patch" },
  },
  opencode: {
    command: (command: string) => use("bash", { command, description: "runs" }),
    edit: use("write", { filePath: "/workspace/notes.txt", content: "edited line\n" }),
    greet: use("backplane_hello", { name: "Ada" }),
    recorded: { command: "bash", edit: "write" },
  },
} as const;

function use(tool: string, input: object): string {
  return `use ${tool} ${JSON.stringify(input)}`;
}

function createPatch(before: string, after: string): string {
  const patch = [
    "*** Begin Patch",
    "*** Update File: notes.txt",
    "@@",
    `-${before}`,
    `+${after}`,
    "*** End Patch",
  ];
  return ["apply_patch <<'EOF'", ...patch, "EOF"].join("\n");
}

for (const [name, { command, edit, greet, recorded }] of Object.entries(AGENTS)) {
  test(
    `${name} runs a command and edits a file after approval, and the conversation shows both`,
    async () => {
      // OpenCode refuses to overwrite a file that it has not read.
      const read = name === "opencode" ? [use("read", { filePath: "/workspace/notes.txt" })] : [];
      const task = [command("echo done > other.txt"), ...read, edit];
      const { run, approvals } = await converse(name, name, ["Edit the notes.", ...task].join("\n"));
      const content = `I made ${task.length} calls.`;
      expect(run).toMatchObject({ status: "completed", error: null, output: { content } });
      expect(readFileSync(notes, "utf8")).toBe("edited line\n");
      expect(readFileSync(join(workspace, "other.txt"), "utf8")).toBe("done\n");
      expect(approvals.map(({ tool, session_id }) => ({ tool, session_id }))).toEqual([
        { tool: "harness_action", session_id: name },
        { tool: "harness_action", session_id: name },
      ]);
      expect(approvals[0]!.input).toMatchObject({ agent: name, action: "command" });
      expect((approvals[0]!.input as { target: string }).target).toContain("echo done > other.txt");
      expect(approvals[1]!.input).toMatchObject({ agent: name, action: "edit" });
      expect(JSON.stringify(approvals[1]!.input)).toContain("+edited line");
      const blocks = await blocksOf(name);
      expect(kindsOf(blocks)).toEqual([
        "input",
        "response",
        `tool_call ${recorded.command}`,
        "tool_result",
        ...read.flatMap(() => ["response", "tool_call read", "tool_result"]),
        "response",
        `tool_call ${recorded.edit}`,
        "tool_result",
        "response",
      ]);
      expect(blocks.filter(({ is_error }) => is_error === true)).toEqual([]);
      for (const { invocation_id } of approvals) {
        const question = (await gateway.http<Invocation>("GET", `/v1/invocations/${invocation_id}`)).body;
        expect(question).toMatchObject({ status: "succeeded", run_id: run.id });
      }
      const path = `/v1/llm-calls?invocation_id=${run.harness!.invocation_id}`;
      expect((await gateway.http<{ items: unknown[] }>("GET", path)).body.items).toHaveLength(
        task.length + 1,
      );
    },
    LIMIT_MS,
  );

  test(
    `${name} does not run a command that a person rejects`,
    async () => {
      const session = `${name}-rejected`;
      const { approvals } = await converse(session, name, command("echo no > notes.txt"), "reject");
      expect(approvals).toHaveLength(1);
      expect(readFileSync(notes, "utf8")).toBe("first line\n");
      const results = (await blocksOf(session)).filter(({ kind }) => kind === "tool_result");
      expect(results).toMatchObject([{ is_error: true }]);
    },
    LIMIT_MS,
  );

  test(
    `${name} calls a tool of the gateway, which is recorded as a call of its run`,
    async () => {
      const session = `${name}-tools`;
      const { run, approvals } = await converse(session, name, greet);
      expect(run).toMatchObject({ status: "completed", error: null });
      expect(approvals).toEqual([]);
      const path = `/v1/invocations?export_id=hello&limit=100`;
      const { items } = (await gateway.http<{ items: Invocation[] }>("GET", path)).body;
      const calls = items.filter(({ run_id }) => run_id === run.id);
      expect(calls).toMatchObject([{ status: "succeeded", input: { name: "Ada" } }]);
      const [call, result] = (await blocksOf(session)).filter(({ kind }) => kind.startsWith("tool_"));
      expect(call).toMatchObject({ name: "hello", input: { name: "Ada" } });
      expect(textOf(result!.content)).toContain("Hello, Ada!");
    },
    LIMIT_MS,
  );
}

test(
  "a harness continues from the conversation after the gateway has crashed",
  async () => {
    const { command } = AGENTS.codex;
    const text = [command("echo one >> notes.txt"), command("echo two >> notes.txt")].join("\n");
    const body = { session_id: "crash", input: { text }, harness: { export_id: "codex" } };
    const { id } = (await gateway.http<Run>("POST", "/v1/runs", body)).body;
    const first = await nextApproval();
    await gateway.http("POST", `/v1/approvals/${first.id}:answer`, { response: "approve" });
    await nextApproval(first.id);
    await gateway.kill9();
    gateway = await startTestGateway({ home: gateway.home });
    const { run } = await finish(id, "approve");
    expect(run).toMatchObject({ status: "completed", error: null, output: { content: "I made 2 calls." } });
    expect(readFileSync(notes, "utf8")).toBe("first line\none\ntwo\n");
  },
  2 * LIMIT_MS,
);

verifies(
  "session.portable",
  "continues one conversation under Codex, then OpenCode, then the built-in loop",
  async () => {
    const { codex, opencode } = AGENTS;
    const steps = [
      ["codex", `Remember 4711.\n${codex.command("echo codex >> notes.txt")}`],
      ["opencode", `Go on.\n${opencode.command("echo opencode >> notes.txt")}`],
      [null, "What did you do?"],
    ] as const;
    const histories: AgentModelRequest["messages"][] = [];
    for (const [harness, text] of steps) {
      const { run } = await converse("portable", harness, text);
      expect(run).toMatchObject({ status: "completed", error: null });
      histories.push(model.requests.at(-1)!.messages.filter(({ role }) => role !== "system"));
    }
    expect(readFileSync(notes, "utf8")).toBe("first line\ncodex\nopencode\n");
    const turnOf = (tool: string) => ["input", "response", `tool_call ${tool}`, "tool_result", "response"];
    const kinds = kindsOf(await blocksOf("portable"));
    expect(kinds).toEqual([...turnOf("shell"), ...turnOf("bash"), "input", "response"]);
    // OpenCode and the built-in loop show their models what was said and done before.
    const [, opencode_saw, loop_saw] = histories.map((messages) =>
      messages.map(({ content }) => textOf(content)).join("\n"),
    );
    expect(opencode_saw).toContain("Remember 4711.");
    expect(opencode_saw).toContain("Assistant called shell");
    expect(loop_saw).toContain("Remember 4711.");
    const roles = ["user", "assistant", "assistant", "tool", "assistant"];
    expect(histories[2]!.map(({ role }) => role)).toEqual([...roles, ...roles, "user"]);
    const { head_chain_id } = (await gateway.http<{ head_chain_id: string }>("GET", "/v1/sessions/portable"))
      .body;
    const checked = await gateway.http("GET", `/v1/chains/${head_chain_id}:verify`);
    expect(checked.body).toEqual({ valid: true, broken: null });
  },
  3 * LIMIT_MS,
);
