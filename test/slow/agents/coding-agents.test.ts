/** The published Codex and OpenCode as harnesses, in the sandbox, with a scripted model behind the gateway's endpoints. */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Approval, Block, Invocation, Run } from "@backplane/contract";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { installAgent } from "../../support/models/agent-programs.ts";
import {
  AGENT_MODEL_USAGE,
  type AgentModel,
  type AgentModelRequest,
  startAgentModel,
  textOf,
} from "../../support/models/scripted-agent-model.ts";
import { verifies } from "../../support/verifies.ts";

const INSTALL_MS = 600_000;
const LIMIT_MS = 180_000;
const GIB = 1024 ** 3;

const NOBODY = 65_534;

let programs: Record<string, string>;
let gateway: TestGateway;
let model: AgentModel;
const workspace = mkdtempSync(join(tmpdir(), "backplane-agents-"));
const notes = join(workspace, "notes.txt");

beforeAll(async () => {
  programs = { codex: await installAgent("codex"), opencode: await installAgent("opencode") };
  model = await startAgentModel();
  const home = mkdtempSync(join(tmpdir(), "backplane-e2e-"));
  // OpenCode uses about 600 MB, which is more than a sandbox has by default.
  writeConfiguration(home, GIB);
  gateway = await startTestGateway({ home });
  await installAgents(gateway, workspace);
  await install(gateway, "hello-tool");
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
  // Sandboxes run as other users than this test.
  chmodSync(workspace, 0o777);
  chmodSync(notes, 0o666);
  model.requests.length = 0;
});

function writeConfiguration(home: string, memory_bytes: number): void {
  writeFileSync(
    join(home, "backplane.toml"),
    `[sandbox.package_limits."backplane/opencode"]\nmemory_bytes = ${memory_bytes}\n`,
  );
}

async function installAgents(target: TestGateway, folder: string): Promise<void> {
  const config = { base_url: model.base_url, model: "scripted", timeout_s: 600, allow_private: true };
  await target.http("POST", "/api/llm-providers", { id: "main", plugin: "llm-openai", config });
  await target.http("PATCH", "/api/llm-providers/active", { name: "main" });
  for (const [name, program] of Object.entries(programs)) {
    const mounts = ["--mount", `${program}:/opt/${name}`, "--mount", `${folder}:/workspace:rw`];
    await install(target, name, ...mounts, "--config", JSON.stringify({ model: "main/scripted" }));
  }
}

async function install(target: TestGateway, name: string, ...flags: string[]): Promise<void> {
  const { code, stderr } = await target.cli(
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
  const id = await startRun(gateway, session_id, harness, text);
  return await finish(gateway, id, response);
}

async function startRun(
  target: TestGateway,
  session_id: string,
  harness: string | null,
  text: string,
): Promise<string> {
  const body = {
    session_id,
    input: { text },
    ...(harness === null ? {} : { harness: { export_id: harness } }),
  };
  const started = await target.http<Run>("POST", "/v1/runs", body);
  expect(started).toMatchObject({ status: 202 });
  return started.body.id;
}

async function finish(
  target: TestGateway,
  id: string,
  response: Answer,
): Promise<{ run: Run; approvals: Approval[] }> {
  const approvals: Approval[] = [];
  let run: Run | null = null;
  await eventually(
    async () => {
      for (const approval of await listPendingApprovals(target)) {
        approvals.push(approval);
        await target.http("POST", `/v1/approvals/${approval.id}:answer`, { response });
      }
      run = (await target.http<Run>("GET", `/v1/runs/${id}`)).body;
      return run.status !== "running";
    },
    LIMIT_MS,
    "the run ends",
  );
  return { run: run!, approvals };
}

async function listPendingApprovals(target: TestGateway): Promise<Approval[]> {
  return (await target.http<{ items: Approval[] }>("GET", "/v1/approvals?status=pending")).body.items;
}

/** A model call is added to its run when it is settled, which may be after the end of the run. */
async function expectUsage(run: Run, calls: number): Promise<void> {
  const { prompt_tokens, completion_tokens } = AGENT_MODEL_USAGE;
  const usage = { input: calls * prompt_tokens, output: calls * completion_tokens };
  await expect
    .poll(async () => (await gateway.http<Run>("GET", `/v1/runs/${run.id}`)).body)
    .toMatchObject({ iterations: calls, usage });
}

async function waitForApproval(session: string, after?: string): Promise<Approval> {
  let approval: Approval | undefined;
  await eventually(
    async () => {
      const pending = await listPendingApprovals(gateway);
      approval = pending.find(({ id, session_id }) => session_id === session && id !== after);
      return approval !== undefined;
    },
    LIMIT_MS,
    "a request for approval",
  );
  return approval!;
}

async function readBlocks(session_id: string): Promise<Block[]> {
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
      const task = [command("echo done > other.txt && env > environment.txt"), ...read, edit];
      const { run, approvals } = await converse(name, name, ["Edit the notes.", ...task].join("\n"));
      const content = `I made ${task.length} calls.`;
      expect(run).toMatchObject({ status: "completed", error: null, output: { content } });
      expect(readFileSync(notes, "utf8")).toBe("edited line\n");
      expect(readFileSync(join(workspace, "other.txt"), "utf8")).toBe("done\n");
      // The commands of an agent inherit its environment without the token.
      const environment = readFileSync(join(workspace, "environment.txt"), "utf8");
      expect(environment).toContain("HOME=");
      expect(environment).not.toContain("vai_dlg_");
      expect(approvals.map(({ tool, session_id }) => ({ tool, session_id }))).toEqual([
        { tool: "harness_action", session_id: name },
        { tool: "harness_action", session_id: name },
      ]);
      expect(approvals[0]!.input).toMatchObject({ agent: name, action: "command" });
      expect((approvals[0]!.input as { target: string }).target).toContain("echo done > other.txt");
      expect(approvals[1]!.input).toMatchObject({ agent: name, action: "edit" });
      expect(JSON.stringify(approvals[1]!.input)).toContain("+edited line");
      const blocks = await readBlocks(name);
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
      await expectUsage(run, task.length + 1);
      const { stdout } = await gateway.cli("run", "show", run.id);
      expect(stdout).toMatch(new RegExp(`model_calls: +${task.length + 1}\n`));
      expect(stdout).toMatch(/tokens: +\d+ in, \d+ out\n/);
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
      const results = (await readBlocks(session)).filter(({ kind }) => kind === "tool_result");
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
      const [call, result] = (await readBlocks(session)).filter(({ kind }) => kind.startsWith("tool_"));
      expect(call).toMatchObject({ name: "hello", input: { name: "Ada" } });
      expect(textOf(result!.content)).toContain("Hello, Ada!");
    },
    LIMIT_MS,
  );
}

test(
  "Codex and OpenCode continue from the conversation after the gateway has crashed",
  async () => {
    const runs = await Promise.all(
      Object.entries(AGENTS).map(async ([name, { command }]) => {
        const file = join(workspace, `${name}-lines.txt`);
        writeFileSync(file, "");
        // The second process may run as a different user than the first.
        chmodSync(file, 0o666);
        const lines = ["one", "two"].map((line) => command(`echo ${line} >> ${name}-lines.txt`));
        const session = `${name}-crash`;
        const id = await startRun(gateway, session, name, ["Write two lines.", ...lines].join("\n"));
        const first = await waitForApproval(session);
        await gateway.http("POST", `/v1/approvals/${first.id}:answer`, { response: "approve" });
        await waitForApproval(session, first.id);
        return { id, file };
      }),
    );
    await gateway.kill9();
    gateway = await startTestGateway({ home: gateway.home });
    for (const { id, file } of runs) {
      const { run } = await finish(gateway, id, "approve");
      const content = "I made 2 calls.";
      expect(run).toMatchObject({ status: "completed", error: null, output: { content } });
      expect(readFileSync(file, "utf8")).toBe("one\ntwo\n");
      // Two calls before the crash and two after it.
      await expectUsage(run, 4);
    }
  },
  2 * LIMIT_MS,
);

test.runIf(process.getuid!() === 0)(
  "the gateway of an ordinary user hosts Codex and OpenCode in a folder that only this user can write to",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-ordinary-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [home, project] = [join(folder, "home"), join(folder, "project")];
    for (const each of [home, project]) mkdirSync(each, { mode: 0o700 });
    // Without cgroups the limit counts what a process reserves, and OpenCode reserves more than 4 GiB.
    writeConfiguration(home, 8 * GIB);
    for (const each of [folder, home, join(home, "backplane.toml"), project]) chownSync(each, NOBODY, NOBODY);
    const user = { uid: NOBODY, gid: NOBODY };
    const env = { PATH: "/usr/bin:/bin", HOME: folder, TMPDIR: folder };
    const ordinary = await startTestGateway({ home, user, env });
    onTestFinished(() => ordinary.dispose());
    await installAgents(ordinary, project);
    await Promise.all(
      Object.entries(AGENTS).map(async ([name, { command }]) => {
        const text = command(`echo ${name} > ${name}.txt`);
        const id = await startRun(ordinary, name, name, text);
        const { run } = await finish(ordinary, id, "approve");
        const content = "I made 1 calls.";
        expect(run).toMatchObject({ status: "completed", error: null, output: { content } });
        const file = join(project, `${name}.txt`);
        expect(readFileSync(file, "utf8")).toBe(`${name}\n`);
        expect(statSync(file).uid).toBe(NOBODY);
      }),
    );
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
    const kinds = kindsOf(await readBlocks("portable"));
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
