/** Approvals by elicitation, for clients that support it and may answer approvals. */
import type { JsonObject } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { askForApproval } from "../../../src/mcp/calls/ask-approval.ts";
import { Questions } from "../../../src/mcp/session/questions.ts";
import { startBoundApi } from "../../support/bound-api.ts";
import { ADMIN } from "../../support/callers.ts";
import { callParams, connect, type McpClient, send } from "../../support/mcp-client.ts";
import { ADMIN_TOKEN, type TestApi } from "../../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["ask"]));
});
afterAll(() => api.close());

const ELICITATION = { elicitation: {} };
const listPending = async () =>
  (await api.call("GET", "/v1/approvals?status=pending")).json.items as { id: string; input: JsonObject }[];
const answerOverHttp = (id: string, response: string) =>
  api.call("POST", `/v1/approvals/${id}:answer`, { body: { response } });
const createKey = async (scopes: string[], role = "user") =>
  (await api.call("POST", "/v1/keys", { body: { name: "mcp", role, scopes } })).json.token as string;

/** Calls the tool in a session and answers the elicitation with `reply`; null closes the connection instead. */
async function callAndAnswer(client: McpClient, reply: JsonObject | null, token = ADMIN_TOKEN) {
  const questions: JsonObject[] = [];
  const stop = new AbortController();
  const running = client.ask("tools/call", callParams("ask", { text: "all of it" }), {
    signal: stop.signal,
    each(message) {
      if (message.method !== "elicitation/create") return;
      questions.push(message.params as JsonObject);
      if (reply === null) stop.abort();
      else
        void send(
          base,
          { jsonrpc: "2.0", id: message.id!, result: reply },
          { token, headers: client.headers },
        );
    },
  });
  return { questions, running };
}

verifies(
  ["mcp.server", "approval.flow"],
  "asks the client for approval and runs the call that a person approves",
  async () => {
    const client = await connect(base, "2025-11-25", ADMIN_TOKEN, ELICITATION);
    const approve = { action: "accept", content: { decision: "approve" } };
    const { questions, running } = await callAndAnswer(client, approve);
    expect((await running).last.result).toMatchObject({ isError: false });
    expect(questions).toHaveLength(1);
    expect(questions[0]!.message).toMatch(/^Allow ask \(.+\) to run\? Risk: \w+\./);
    expect(questions[0]!.message).toContain('"text": "all of it"');
    expect(questions[0]!.requestedSchema).toMatchObject({
      properties: { decision: { enum: ["approve", "reject"] }, feedback: { type: "string" } },
      required: ["decision"],
    });
    const [row] = (await api.call("GET", "/v1/approvals?status=approved")).json.items;
    expect(row).toMatchObject({ response: "approve", answered_by: "admin" });
  },
);

verifies(["mcp.server", "approval.flow"], "rejects the call with the feedback of the person", async () => {
  const client = await connect(base, "2025-11-25", ADMIN_TOKEN, ELICITATION);
  const reject = { action: "accept", content: { decision: "reject", feedback: "not on a Monday" } };
  const rejected = await callAndAnswer(client, reject);
  const { result } = (await rejected.running).last;
  expect(result).toMatchObject({
    isError: true,
    _meta: { "backplane/error": { code: "approval.rejected" } },
  });
  expect(JSON.stringify(result.content)).toContain("not on a Monday");
  const declined = await callAndAnswer(client, { action: "decline" });
  expect((await declined.running).last.result.isError).toBe(true);
  expect(await listPending()).toEqual([]);
});

/** Returns the answers that the gateway records for a reply; null closes the connection. */
async function collectAnswers(reply: JsonObject | null): Promise<object[]> {
  const answers: object[] = [];
  const approval = {
    id: "apr_1",
    tool: "ask",
    package_id: "acme/kit",
    reason: "",
    brief: "",
    risk: "high",
    input: {},
    digest: "d",
  };
  const approvals = {
    get: async () => approval,
    answer: async (_caller: Caller, _id: string, answer: object) => answers.push(answer),
  };
  const questions = new Questions(ELICITATION);
  questions.listen(({ key }) => (reply === null ? questions.close() : questions.answer(key, reply)));
  await askForApproval({ approvals } as never, ADMIN, { approval_id: "apr_1" }, questions);
  return answers;
}

verifies(
  ["mcp.server", "approval.flow"],
  "decides nothing when the person closes the form, answers something else or disconnects",
  async () => {
    const accept = (content: JsonObject): JsonObject => ({ action: "accept", content });
    for (const reply of [
      null,
      { action: "cancel" },
      { action: "accept" },
      { action: "approve" },
      accept({}),
      accept({ decision: "approve_always" }),
      accept({ decision: ["approve"] }),
    ] as (JsonObject | null)[])
      expect(await collectAnswers(reply), JSON.stringify(reply)).toEqual([]);
    expect(await collectAnswers(accept({ decision: "approve", feedback: " " }))).toEqual([
      { response: "approve", digest: "d" },
    ]);
    expect(await collectAnswers({ action: "decline" })).toEqual([{ response: "reject", digest: "d" }]);
  },
);

test("leaves the approval pending after a disconnect", async () => {
  const client = await connect(base, "2025-11-25", ADMIN_TOKEN, ELICITATION);
  const { questions, running } = await callAndAnswer(client, null);
  await expect(running).rejects.toThrow();
  expect(questions).toHaveLength(1);
  const [left] = await listPending();
  expect((await answerOverHttp(left!.id, "reject")).status).toBe(200);
});

verifies(["mcp.server", "approval.flow"], "asks only a caller that may answer approvals", async () => {
  const both = ["invocations:write", "approvals:answer"];
  for (const [token, capabilities, is_asked] of [
    [await createKey(both), ELICITATION, true],
    [await createKey(["invocations:write"]), ELICITATION, false],
    [await createKey(both), {}, false],
  ] as const) {
    const client = await connect(base, "2025-11-25", token, capabilities);
    const { questions, running } = await callAndAnswer(client, { action: "cancel" }, token);
    await expect.poll(async () => (await listPending()).length).toBe(1);
    await answerOverHttp((await listPending())[0]!.id, "approve");
    expect((await running).last.result.isError).toBe(false);
    expect(questions.length).toBe(is_asked ? 1 : 0);
  }
});

verifies(["mcp.server", "approval.flow"], "ends a stateless request with the question", async () => {
  const client = await connect(base, "2026-07-28", ADMIN_TOKEN, ELICITATION);
  const first = (await client.ask("tools/call", callParams("ask"))).last.result;
  expect(first).toMatchObject({ resultType: "input_required" });
  const [[key, question]] = Object.entries(first.inputRequests as JsonObject) as [[string, JsonObject]];
  expect(question).toMatchObject({ method: "elicitation/create" });
  const approve = { action: "accept", content: { decision: "approve" } };
  const again = {
    ...callParams("ask"),
    requestState: first.requestState,
    inputResponses: { [key]: approve },
  };
  expect((await client.ask("tools/call", again)).last.result).toMatchObject({ isError: false });
});

test("does not ask by elicitation when the arguments are too long to show in full", async () => {
  const client = await connect(base, "2025-11-25", ADMIN_TOKEN, ELICITATION);
  const questions: JsonObject[] = [];
  const running = client.ask("tools/call", callParams("ask", { text: "x".repeat(8_001) }), {
    each: (message) => void (message.method === "elicitation/create" && questions.push(message)),
  });
  await expect.poll(async () => (await listPending()).length).toBe(1);
  await answerOverHttp((await listPending())[0]!.id, "reject");
  await running;
  expect(questions).toEqual([]);
});
