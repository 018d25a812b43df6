/** The parts of the harness without a running Codex, with frames that Codex 0.166.0 sent. */
import { hash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import type { AgentPermission, Block, HarnessCall } from "@backplane/sdk";
import { expect, onTestFinished, test } from "vitest";
import { AppServer, type ServerListener } from "../src/app-server.ts";
import { buildSettings, Turn } from "../src/codex.ts";
import { blocksOf, itemsOf } from "../src/transcript.ts";
import { verifyProgram } from "../src/verify-program.ts";

const COMMAND = {
  type: "commandExecution",
  id: "c1",
  command: "/bin/bash -lc 'echo hi > a.txt && cat a.txt'",
  cwd: "/workspace",
  source: "unifiedExecStartup",
  status: "completed",
  aggregatedOutput: "hi\n",
  exitCode: 0,
};
const CHANGE = {
  type: "fileChange",
  id: "c2",
  changes: [
    {
      path: "/workspace/notes.txt",
      kind: { type: "update", move_path: null },
      diff: "@@ -1 +1 @@\n-a\n+b\n",
    },
  ],
  status: "completed",
};
const MESSAGE = { type: "agentMessage", id: "m1", text: "I am done.", phase: null };

function connect(listener: Partial<ServerListener> = {}) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const server = new AppServer(
    { input, output },
    { onNotification: () => {}, onRequest: async () => ({}), ...listener },
  );
  const sent: unknown[] = [];
  input.on("data", (chunk) => {
    for (const line of String(chunk).trim().split("\n")) sent.push(JSON.parse(line));
  });
  const receive = (frame: object) => output.write(`${JSON.stringify(frame)}\n`);
  return { server, sent, receive, output };
}

/** Starts a turn and collects its recorded blocks and its permission requests. */
function startTurn(permission: AgentPermission = { allowed: true, reason: "" }) {
  const recorded: Block[] = [];
  const permission_requests: unknown[] = [];
  const call: Pick<HarnessCall, "addToConversation" | "checkpoint" | "progress" | "requestPermission"> = {
    addToConversation: async (blocks) => void recorded.push(...blocks),
    checkpoint: () => {},
    progress: () => {},
    requestPermission: async (action) => {
      permission_requests.push(action);
      return permission;
    },
  };
  return { turn: new Turn(call), recorded, permission_requests };
}

test("matches responses to requests, and rejects with the error of the server", async () => {
  const { server, sent, receive } = connect();
  const first = server.request("thread/start", { cwd: "/workspace" });
  const second = server.request("turn/start", {});
  receive({ id: 2, error: { code: -32600, message: "thread not found" } });
  receive({ id: 1, result: { thread: { id: "t1" } } });
  expect(await first).toEqual({ thread: { id: "t1" } });
  await expect(second).rejects.toThrow("thread not found");
  expect(sent).toEqual([
    { id: 1, method: "thread/start", params: { cwd: "/workspace" } },
    { id: 2, method: "turn/start", params: {} },
  ]);
});

test("responds to requests from the server with a result or an error", async () => {
  const onRequest = async (method: string) => {
    if (method !== "item/commandExecution/requestApproval") throw new Error("not available");
    return { decision: "accept" };
  };
  const { sent, receive } = connect({ onRequest });
  receive({ id: 0, method: "item/commandExecution/requestApproval", params: {} });
  receive({ id: 1, method: "item/tool/requestUserInput", params: {} });
  await expect.poll(() => sent).toHaveLength(2);
  expect(sent).toContainEqual({ id: 0, result: { decision: "accept" } });
  expect(sent).toContainEqual({ id: 1, error: { code: -32603, message: "not available" } });
});

test("ignores output that is not a frame, and rejects pending and later requests after it is closed", async () => {
  const { server, output } = connect();
  const pending = server.request("initialize", {});
  output.write("WARNING: proceeding\n");
  server.close(new Error("Codex exited: exit code 1"));
  await expect(pending).rejects.toThrow("exit code 1");
  await expect(server.request("initialize", {})).rejects.toThrow("exit code 1");
});

test("records the actions of Codex in order, and keeps the last message as the summary", async () => {
  const { turn, recorded } = startTurn();
  turn.onNotification("item/completed", { item: { type: "userMessage", id: "u1", content: [] } });
  turn.onNotification("item/completed", { item: { ...MESSAGE, text: "Let me see." } });
  turn.onNotification("item/completed", { item: COMMAND });
  turn.onNotification("item/completed", { item: CHANGE });
  turn.onNotification("item/completed", { item: MESSAGE });
  turn.onNotification("turn/completed", { turn: { status: "completed", error: null } });
  expect(await turn.ended).toEqual({ summary: { text: "I am done." } });
  expect(recorded.map(({ kind, name }) => name ?? kind)).toEqual([
    "response",
    "shell",
    "tool_result",
    "apply_patch",
    "tool_result",
  ]);
});

test("fails with the reason that Codex reports, after recording the last message", async () => {
  const { turn, recorded } = startTurn();
  turn.onNotification("item/completed", { item: MESSAGE });
  turn.onNotification("turn/completed", {
    turn: { status: "failed", error: { message: "stream disconnected" } },
  });
  await expect(turn.ended).rejects.toThrow("Codex failed: stream disconnected");
  expect(recorded).toMatchObject([{ kind: "response" }]);
});

test("asks for permission with the command, or with the changes that Codex announced before", async () => {
  const { turn, permission_requests } = startTurn();
  const command = { itemId: "c1", command: COMMAND.command, cwd: "/workspace", reason: null };
  expect(await turn.onRequest("item/commandExecution/requestApproval", command)).toEqual({
    decision: "accept",
  });
  turn.onNotification("item/started", { item: { ...CHANGE, status: "inProgress" } });
  await turn.onRequest("item/fileChange/requestApproval", { itemId: "c2", reason: null });
  expect(permission_requests).toEqual([
    { agent: "codex", action: "command", target: COMMAND.command, details: { cwd: "/workspace" } },
    {
      agent: "codex",
      action: "edit",
      target: "/workspace/notes.txt",
      details: { changes: [{ path: "/workspace/notes.txt", kind: "update", diff: "@@ -1 +1 @@\n-a\n+b\n" }] },
    },
  ]);
});

test("declines changes that were not announced, and reports how much of a long diff is not shown", async () => {
  const { turn, permission_requests } = startTurn();
  const unknown = await turn.onRequest("item/fileChange/requestApproval", { itemId: "c9", reason: null });
  expect(unknown).toEqual({ decision: "decline" });
  expect(permission_requests).toEqual([]);
  const [change] = CHANGE.changes;
  const long = { ...CHANGE, changes: [{ ...change, diff: "+".repeat(20_100) }] };
  turn.onNotification("item/started", { item: long });
  await turn.onRequest("item/fileChange/requestApproval", { itemId: "c2", reason: null });
  const end = "+\n[100 more characters are not shown]";
  expect(permission_requests).toMatchObject([
    { details: { changes: [{ diff: expect.stringContaining(end) }] } },
  ]);
});

test("declines actions that a person rejected, and requests of unknown kinds", async () => {
  const { turn } = startTurn({ allowed: false, reason: "no" });
  const command = { itemId: "c1", command: "rm -rf /" };
  expect(await turn.onRequest("item/commandExecution/requestApproval", command)).toEqual({
    decision: "decline",
  });
  expect(await turn.onRequest("item/fileChange/requestApproval", { itemId: "c9" })).toEqual({
    decision: "decline",
  });
  const other_server = { serverName: "other" };
  expect(await turn.onRequest("mcpServer/elicitation/request", other_server)).toMatchObject({
    action: "decline",
  });
  await expect(turn.onRequest("item/permissions/requestApproval", {})).rejects.toThrow("not available");
});

test("marks a command that failed or was declined as an error", () => {
  const [, failed] = blocksOf({ ...COMMAND, exitCode: 2 });
  const [, declined] = blocksOf({ ...COMMAND, status: "declined", exitCode: null, aggregatedOutput: null });
  expect(failed).toMatchObject({ kind: "tool_result", is_error: true });
  expect(declined).toMatchObject({
    is_error: true,
    content: [{ type: "text", text: "The command was not allowed." }],
  });
});

test("passes the conversation to Codex as items, without calls that have no result", () => {
  const text = (content: string) => [{ type: "text" as const, text: content }];
  const items = itemsOf([
    { kind: "system", content: text("be brief") },
    { kind: "input", content: text("list") },
    { kind: "thinking", content: text("hm") },
    { kind: "tool_call", content: [], tool_call_id: "a", name: "bash", input: { command: "ls" } },
    { kind: "tool_result", content: text("notes.txt"), tool_call_id: "a" },
    { kind: "response", content: text("one file") },
    { kind: "tool_call", content: [], tool_call_id: "b", name: "bash", input: {} },
  ]);
  expect(items).toEqual([
    { type: "message", role: "developer", content: [{ type: "input_text", text: "be brief" }] },
    { type: "message", role: "user", content: [{ type: "input_text", text: "list" }] },
    { type: "function_call", call_id: "a", name: "bash", arguments: '{"command":"ls"}' },
    { type: "function_call_output", call_id: "a", output: "notes.txt" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "one file" }] },
  ]);
});

test("names the files that were attached to an earlier message", () => {
  const image = { type: "image", data: "AAAA", mimeType: "image/png", name: "plan.png", attachment: true };
  const [item] = itemsOf([{ kind: "input", content: [{ type: "text", text: "see" }, image] }]);
  expect(item).toMatchObject({ content: [{ type: "input_text", text: "see\n[attached image: plan.png]" }] });
});

test("points Codex at the gateway, and at its tools only with the scope for them", () => {
  const gateway = { base_url: "http://127.0.0.1:7420/", scopes: ["tools:invoke"] } as never;
  const settings = buildSettings({ gateway }, "main/gpt", "/workspace").filter(
    (argument) => argument !== "-c",
  );
  expect(settings).toContain('model="main/gpt"');
  expect(settings).toContain(
    'mcp_servers={ backplane = { url = "http://127.0.0.1:7420/mcp", bearer_token_env_var = "BACKPLANE_TOKEN" } }',
  );
  // Codex gets the token in a variable, which its commands must not inherit.
  expect(settings).toContain('shell_environment_policy.exclude=["BACKPLANE_TOKEN"]');
  expect(settings).toContain('projects={ "/workspace" = { trust_level = "untrusted" } }');
  const gateway_without_scopes = { base_url: "http://127.0.0.1:7420", scopes: [] } as never;
  expect(buildSettings({ gateway: gateway_without_scopes }, "m", "/workspace")).toContain("mcp_servers={  }");
});

test("accepts only the program that the binding specifies", async () => {
  const program = join(mkdtempSync(join(tmpdir(), "codex-program-")), "codex");
  onTestFinished(() => rmSync(dirname(program), { recursive: true }));
  writeFileSync(program, "first");
  const known = await verifyProgram(program, undefined);
  expect(known).toBe(hash("sha256", "first", "hex"));
  expect(await verifyProgram(program, known)).toBe(known);
  writeFileSync(program, "other");
  await expect(verifyProgram(program, known)).rejects.toThrow("set program_sha256 in the configuration");
});
