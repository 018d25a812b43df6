/**
 * Counts the approvals that an agent needs (allow.rules): tasks of twenty steps by a scripted model against MCP servers
 * that describe their tools as the usual browser and git servers do. The answers are those that docs/policy.md
 * suggests.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "@backplane/client";
import type { ApprovalAnswer, Run } from "@backplane/contract";
import { afterAll, beforeAll, expect } from "vitest";
import { readStream } from "../../packages/api/test/support/read-stream.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { bindMcpServer } from "../support/mcp/mcp-server.ts";
import { verifies } from "../support/verifies.ts";

const READS = { readOnlyHint: true, destructiveHint: false, openWorldHint: true };
const WRITES = { readOnlyHint: false, destructiveHint: true, openWorldHint: true };

/** The program of an MCP server whose tools return their arguments. */
function serverProgram(tools: Record<string, object>): string {
  const listed = Object.entries(tools).map(([name, annotations]) => ({
    name,
    description: `Does ${name}.`,
    inputSchema: { type: "object" },
    annotations,
  }));
  return `
import { createInterface } from "node:readline";
const tools = ${JSON.stringify(listed)};
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "scripted", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools }),
  "tools/call": (params) => ({ content: [{ type: "text", text: JSON.stringify(params.arguments) }] }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = answers[method];
  const body = answer === undefined
    ? { error: { code: -32601, message: "unknown method" } }
    : { result: answer(params ?? {}) };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...body }) + "\\n");
}
`;
}

interface Task {
  server: string;
  tools: Record<string, object>;
  /** The tools that only read, which the operator rates as low. */
  reads: string[];
  /** Twenty calls, each with its own arguments. */
  steps: [tool: string, input: object][];
}

const BROWSER: Task = {
  server: "browser",
  tools: { navigate: WRITES, click: WRITES, type: WRITES, snapshot: READS, screenshot: READS },
  reads: ["snapshot", "screenshot"],
  steps: Array.from({ length: 4 }, (_, page): [string, object][] => [
    ["navigate", { url: `https://shop.example/page/${page}` }],
    ["snapshot", { page }],
    ["type", { ref: `e${page}`, text: `order ${page}` }],
    ["click", { ref: `b${page}` }],
    ["screenshot", { name: `page-${page}.png` }],
  ]).flat(),
};

const GIT: Task = {
  server: "git",
  tools: { status: READS, diff: READS, log: READS, add: WRITES, commit: WRITES },
  reads: ["status", "diff", "log"],
  steps: Array.from({ length: 4 }, (_, round): [string, object][] => [
    ["status", { round }],
    ["diff", { path: `src/file-${round}.ts` }],
    ["add", { path: `src/file-${round}.ts` }],
    ["commit", { message: `change ${round}` }],
    ["log", { count: round + 1 }],
  ]).flat(),
};

const ALWAYS_SERVER: ApprovalAnswer = { response: "approve_always", covers: "server" };
const TOOL_FOR_SESSION: ApprovalAnswer = { response: "approve_for_session", covers: "tool" };
const ONCE: ApprovalAnswer = { response: "approve" };

let gateway: TestGateway;
let client: Client;
const folder = mkdtempSync(join(tmpdir(), "backplane-lasting-"));

beforeAll(async () => {
  gateway = await startTestGateway();
  client = createClient({ url: gateway.url, token: gateway.token });
  for (const { server, tools } of [BROWSER, GIT])
    await bindMcpServer(gateway, folder, server, { program: serverProgram(tools) });
});
afterAll(async () => {
  await gateway.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs the task, gives every approval request the same answer, and returns the tools that requested one. */
async function runTask({ server, steps }: Task, session_id: string, answer: ApprovalAnswer) {
  const script = steps.map(([tool, input]) => `/tool mcp_${server}_${tool} ${JSON.stringify(input)}\n/then`);
  const text = [...script, "/say done"].join("\n");
  const requests: string[] = [];
  const answers: Promise<unknown>[] = [];
  let run: Run | null = null;
  await readStream(`${gateway.url}/v1/runs?stream=1`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/json" },
    body: JSON.stringify({ session_id, input: { text }, context: "conversation" }),
    each({ event, data }) {
      if (event === "run") run = JSON.parse(data) as Run;
      if (event !== "approval.request") return;
      const { id, tool_name, digest } = JSON.parse(data).event.payload;
      requests.push(tool_name.replace(`mcp_${server}_`, ""));
      answers.push(client.approvals.answer(id, { ...answer, digest }));
    },
  });
  await Promise.all(answers);
  expect(run).toMatchObject({ status: "completed", output: { content: "done" } });
  const { items } = await client.invocations.list({ session_id, limit: 50 });
  expect(items.map(({ status }) => status)).toEqual(steps.map(() => "succeeded"));
  // Every call was approved by a person, covered by an earlier answer, or within the tolerance.
  const unasked = items.filter(({ approval_id }) => approval_id === null);
  expect(unasked).toHaveLength(steps.length - requests.length);
  return {
    asked: requests,
    allowed_by: new Set(unasked.map(({ allowed_by }) => allowed_by?.slice(0, 4) ?? null)),
  };
}

for (const task of [BROWSER, GIT]) {
  verifies(
    "allow.rules",
    `a ${task.server} task of twenty steps needs one approval if its server is always allowed`,
    async () => {
      const once = await runTask({ ...task, steps: task.steps.slice(0, 4) }, `${task.server}-once`, ONCE);
      expect(once.asked).toHaveLength(4);
      const first = await runTask(task, `${task.server}-server`, ALWAYS_SERVER);
      expect(first.asked).toEqual([task.steps[0]![0]]);
      expect(first.allowed_by).toEqual(new Set(["alw_"]));
      const later = await runTask(task, `${task.server}-later`, ALWAYS_SERVER);
      expect(later.asked).toEqual([]);
      for (const { id } of (await client.allow_rules.list()).items) await client.allow_rules.remove(id);
    },
  );

  verifies(
    "allow.rules",
    `a ${task.server} task of twenty steps needs at most three approvals if tools are allowed for its session`,
    async () => {
      const risks = Object.fromEntries(
        task.reads.map((tool) => [`mcp_${task.server}_${tool}`, "low" as const]),
      );
      await client.policy.patch({ risks });
      const { asked, allowed_by } = await runTask(task, `${task.server}-session`, TOOL_FOR_SESSION);
      expect(asked).toEqual(
        Object.keys(task.tools)
          .filter((tool) => !task.reads.includes(tool))
          .toSorted((a, b) => firstUse(task, a) - firstUse(task, b)),
      );
      expect(asked.length).toBeLessThanOrEqual(3);
      expect(allowed_by).toEqual(new Set(["agr_", null]));
      await client.policy.patch({ risks: null });
    },
  );
}

function firstUse({ steps }: Task, tool: string): number {
  return steps.findIndex(([name]) => name === tool);
}
