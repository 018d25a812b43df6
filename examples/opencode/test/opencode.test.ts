/** The parts of the harness without a running OpenCode, with events that OpenCode 1.18.33 sent. */
import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { AgentPermission, Block, HarnessCall } from "@backplane/sdk";
import { expect, onTestFinished, test } from "vitest";
import { buildSettings, prepareEnvironment, Turn } from "../src/opencode.ts";
import { readEvents, type ServerEvent, startServer } from "../src/server.ts";
import { describeHistory, type MessagePart } from "../src/transcript.ts";
import { verifyProgram } from "../src/verify-program.ts";

const SESSION = "ses_1";

function partUpdated(part: Partial<MessagePart>): ServerEvent {
  return {
    type: "message.part.updated",
    properties: { sessionID: SESSION, part: { sessionID: SESSION, ...part } },
  };
}

const PROMPT = partUpdated({ type: "text", id: "prt_0", text: "edit the file" });
const textPart = (id: string, text: string, end?: number) =>
  partUpdated({ type: "text", id, text, time: { start: 1, ...(end === undefined ? {} : { end }) } });
const toolPart = (id: string, status: string, more: object = {}) =>
  partUpdated({
    type: "tool",
    id,
    tool: "bash",
    callID: `call_${id}`,
    state: { status, input: { command: "ls" }, ...more },
  });
const IDLE: ServerEvent = { type: "session.idle", properties: { sessionID: SESSION } };
const PERMISSION_ASKED: ServerEvent = {
  type: "permission.asked",
  properties: {
    id: "per_1",
    sessionID: SESSION,
    permission: "bash",
    patterns: ["echo hi > a.txt"],
    metadata: { command: "echo hi > a.txt" },
    always: ["echo *"],
  },
};

/** Starts a turn and collects its recorded blocks, its permission requests and its requests to OpenCode. */
function startTurn(permission: AgentPermission = { allowed: true, reason: "" }) {
  const recorded: Block[] = [];
  const permission_requests: unknown[] = [];
  const sent: unknown[] = [];
  const call: Pick<HarnessCall, "addToConversation" | "checkpoint" | "progress" | "requestPermission"> = {
    addToConversation: async (blocks) => void recorded.push(...blocks),
    checkpoint: () => {},
    progress: () => {},
    requestPermission: async (action) => {
      permission_requests.push(action);
      return permission;
    },
  };
  const send = async (...request: unknown[]) => void sent.push(request);
  const turn = new Turn(call, { send: send as never }, SESSION);
  turn.begin();
  return { turn, recorded, permission_requests, sent };
}

test("records parts in the order in which they began, and keeps the last text as the summary", async () => {
  const { turn, recorded } = startTurn();
  const events = [
    PROMPT,
    partUpdated({ type: "step-start", id: "prt_1" }),
    textPart("prt_2", ""),
    toolPart("prt_3", "pending"),
    toolPart("prt_3", "completed", { output: "notes.txt" }),
    textPart("prt_2", "Let me see.", 2),
    toolPart("prt_3", "completed", { output: "notes.txt" }),
    textPart("prt_4", "I am done.", 3),
    IDLE,
  ];
  for (const event of events) turn.onEvent(event);
  expect(await turn.ended).toEqual({ summary: { text: "I am done." } });
  expect(recorded).toMatchObject([
    { kind: "response", content: [{ text: "Let me see." }] },
    { kind: "tool_call", name: "bash", tool_call_id: "call_prt_3", input: { command: "ls" } },
    { kind: "tool_result", tool_call_id: "call_prt_3", is_error: false, content: [{ text: "notes.txt" }] },
  ]);
});

test("records a tool of the gateway under the name that other harnesses use", async () => {
  const { turn, recorded } = startTurn();
  const state = { status: "completed", input: {}, output: "Hello" };
  turn.onEvent(partUpdated({ type: "tool", id: "prt_1", tool: "backplane_hello", callID: "c", state }));
  turn.onEvent(IDLE);
  await turn.ended;
  expect(recorded[0]).toMatchObject({ kind: "tool_call", name: "hello" });
});

test("asks for permission and passes on the answer, including for sub-agents", async () => {
  const { turn, permission_requests, sent } = startTurn();
  turn.onEvent(PERMISSION_ASKED);
  turn.onEvent({
    ...PERMISSION_ASKED,
    properties: { ...PERMISSION_ASKED.properties, id: "per_2", sessionID: "ses_child" },
  });
  await expect.poll(() => sent).toHaveLength(2);
  expect(permission_requests[0]).toEqual({
    agent: "opencode",
    action: "command",
    target: "echo hi > a.txt",
    details: { command: "echo hi > a.txt" },
  });
  expect(sent[0]).toEqual(["POST", "/permission/per_1/reply", { reply: "once" }]);
});

test("rejects an action that a person rejected", async () => {
  const { turn, sent } = startTurn({ allowed: false, reason: "not now" });
  turn.onEvent(PERMISSION_ASKED);
  await expect.poll(() => sent).toHaveLength(1);
  expect(sent[0]).toEqual(["POST", "/permission/per_1/reply", { reply: "reject", message: "not now" }]);
});

test("fails with the reason that OpenCode reports", async () => {
  const { turn } = startTurn();
  const error = { name: "APIError", data: { message: "The model is not available." } };
  turn.onEvent({ type: "session.error", properties: { sessionID: SESSION, error } });
  turn.onEvent(IDLE);
  await expect(turn.ended).rejects.toThrow("OpenCode failed: The model is not available.");
});

test("reads events that arrive in several chunks, and ignores comments", async () => {
  const bytes = new TextEncoder().encode(
    ': alive\n\ndata: {"type":"a","properties":{"text":"é"}}\n\ndata: {"type":"b",',
  );
  const last_chunk = new TextEncoder().encode('"properties":{}}\n\n');
  const split = bytes.length - 40;
  async function* chunks() {
    yield bytes.slice(0, split);
    yield bytes.slice(split);
    yield last_chunk;
  }
  const events: ServerEvent[] = [];
  await readEvents(chunks(), (event) => events.push(event));
  expect(events).toEqual([
    { type: "a", properties: { text: "é" } },
    { type: "b", properties: {} },
  ]);
});

test("describes the earlier conversation", () => {
  const text = describeHistory([
    { kind: "input", content: [{ type: "text", text: "list" }] },
    { kind: "tool_call", content: [], tool_call_id: "a", name: "shell", input: { command: "ls" } },
    {
      kind: "tool_result",
      content: [{ type: "text", text: "no such folder" }],
      tool_call_id: "a",
      is_error: true,
    },
    { kind: "response", content: [{ type: "text", text: "it is empty" }] },
  ]);
  expect(text.split("\n\n").slice(1)).toEqual([
    "User: list",
    'Assistant called shell: {"command":"ls"}',
    "Error: no such folder",
    "Assistant: it is empty",
  ]);
});

test("names the files that were attached to earlier messages", () => {
  const attachment = true;
  const text = describeHistory([
    {
      kind: "input",
      content: [
        { type: "text", text: "see" },
        { type: "image", data: "AAAA", mimeType: "image/png", name: "plan.png", attachment },
        { type: "resource", resource: { uri: "file:///a.pdf", blob: "AAAA" }, attachment },
        { type: "resource", resource: { uri: "file:///a.md", text: "# A" }, attachment },
        { type: "file", attachment },
      ],
    },
  ]);
  expect(text.split("\n\n")[1]).toBe(
    "User: see\n[attached image: plan.png]\n[attached resource: file:///a.pdf]\n# A\n[attached file: without a name]",
  );
});

test("points OpenCode at the gateway, and at its tools only with the scope for them", () => {
  const context = { gateway: { delegation_token: "vai_dlg_1" } } as never;
  const gateway = { base_url: "http://127.0.0.1:7420", scopes: ["tools:invoke"] } as never;
  expect(buildSettings({ gateway, context }, "main/gpt", "ask")).toMatchObject({
    model: "backplane/main/gpt",
    provider: { backplane: { options: { baseURL: "http://127.0.0.1:7420/v1", apiKey: "vai_dlg_1" } } },
    mcp: { backplane: { url: "http://127.0.0.1:7420/mcp" } },
    permission: { edit: "ask", bash: "ask" },
  });
  const gateway_without_scopes = { base_url: "http://127.0.0.1:7420", scopes: [] } as never;
  const settings = buildSettings({ gateway: gateway_without_scopes, context }, "m", "never");
  expect(settings).toMatchObject({ mcp: {}, permission: { edit: "allow", bash: "allow" } });
});

test("keeps the token out of the environment, which the commands of OpenCode inherit", () => {
  const scratch_dir = mkdtempSync(join(tmpdir(), "opencode-scratch-"));
  onTestFinished(() => rmSync(scratch_dir, { recursive: true }));
  const environment = prepareEnvironment({ context: { scratch_dir } } as never, { apiKey: "vai_dlg_1" });
  expect(JSON.stringify(environment)).not.toContain("vai_dlg_1");
  const file = environment.OPENCODE_CONFIG!;
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ apiKey: "vai_dlg_1" });
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("names the memory limit as a possible cause when OpenCode is killed or aborts", async () => {
  const folder = mkdtempSync(join(tmpdir(), "opencode-killed-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const program = join(folder, "opencode");
  for (const signal of ["KILL", "ABRT"]) {
    writeFileSync(program, `#!/bin/sh\nkill -${signal} $$\n`, { mode: 0o755 });
    await expect(startServer(program, folder, {})).rejects.toThrow("exceeded its memory limit");
  }
});

test("accepts only the program that the binding specifies", async () => {
  const program = join(mkdtempSync(join(tmpdir(), "opencode-program-")), "opencode");
  onTestFinished(() => rmSync(dirname(program), { recursive: true }));
  writeFileSync(program, "first");
  const known = await verifyProgram(program, undefined);
  expect(known).toBe(hash("sha256", "first", "hex"));
  expect(await verifyProgram(program, known)).toBe(known);
  writeFileSync(program, "other");
  await expect(verifyProgram(program, known)).rejects.toThrow("set program_sha256 in the configuration");
});
