/**
 * Replies that contradict themselves, in every dialect, over real processes and sockets. No case waits for its
 * deadline: a call has ten minutes, a test much less.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { JsonObject } from "@backplane/contract";
import type { RunOutcome } from "@backplane/ports";
import { describe, expect, onTestFinished, test } from "vitest";
import { buildInstrumentHost } from "../../../../scripts/build-instrument-host.ts";
import { buildToolHost } from "../../../../scripts/build-tool-host.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { mcp, testRunnerFor } from "../support/mcp-http-request.ts";
import { type ReceivedRequest, type Reply, startMcpHttpServer } from "../support/mcp-http-server.ts";
import type { RequestChange } from "../support/request.ts";
import { createTestRunner, type TestRunner, until } from "../support/runner.ts";

const TEN_MINUTES = 600_000;
const TEST_MS = 60_000;
const VAI = { type: "response", id: "$id" };
const RPC = { jsonrpc: "2.0", id: "$id" };
const ERROR = { code: "x.failed", message: "it failed" };
const RPC_ERROR = { code: -32000, message: "it failed" };
const BODY = { status: "succeeded", result: { content: [] } };
const CONTENT = { content: [{ type: "text", text: "done" }] };

interface Case {
  name: string;
  message: JsonObject;
}

const cases = (list: Record<string, JsonObject>): Case[] =>
  Object.entries(list).map(([name, message]) => ({ name, message }));

const VAI_CASES = cases({
  "ok:true with succeeded and an error": { ...VAI, ok: true, body: BODY, error: ERROR },
  "succeeded with an error in the body": { ...VAI, ok: true, body: { ...BODY, error: ERROR } },
  "ok:true with failed and an error": { ...VAI, ok: true, body: { status: "failed" }, error: ERROR },
  "ok:false with succeeded": { ...VAI, ok: false, error: ERROR, body: BODY },
  "ok:false with ack": { ...VAI, ok: false, error: ERROR, body: { status: "ack" } },
  "ok:false without an error": { ...VAI, ok: false },
  "ok:true without a body": { ...VAI, ok: true },
  "ok as a string": { ...VAI, ok: "true", body: BODY },
});
const VAI_WRONG_IDS = cases({
  "a number as id": { ...VAI, id: 1, ok: true, body: BODY },
  "null as id": { ...VAI, id: null, ok: true, body: BODY },
  "an empty id": { ...VAI, id: "", ok: true, body: BODY },
  "a list as id": { ...VAI, id: ["$id"], ok: true, body: BODY },
  "no id": { type: "response", ok: true, body: BODY },
});
const SIDE = { type: "response", request_id: "$id" };
const SIDE_CASES = cases({
  "ok with an error": { ...SIDE, status: "ok", output: 1, error: ERROR },
  "ok with an error of null": { ...SIDE, status: "ok", output: 1, error: null },
  "error without an error": { ...SIDE, status: "error" },
  "another request's id": { ...SIDE, request_id: "req_other", status: "ok" },
  "a number as id": { ...SIDE, request_id: 1, status: "ok" },
  "null as id": { ...SIDE, request_id: null, status: "ok" },
  "no id": { type: "response", status: "ok" },
  "an unknown status": { ...SIDE, status: "succeeded" },
});
const rpcCases = (result: JsonObject) =>
  cases({
    "both result and error": { ...RPC, result, error: RPC_ERROR },
    "a result and an error of null": { ...RPC, result, error: null },
    "neither result nor error": { ...RPC },
    "the id as a string": { ...RPC, id: "$text", result },
    "the id as a string, and an error": { ...RPC, id: "$text", error: RPC_ERROR },
    "the id as a string, and neither result nor error": { ...RPC, id: "$text" },
    "an error without a message": { ...RPC, error: { code: 1 } },
    "another version of the protocol": { ...RPC, jsonrpc: "1.0", result },
    "both a method and a result": { ...RPC, method: "invoke", result },
  });
const rpcWrongIds = (result: JsonObject) =>
  cases({
    "a result with a null id": { ...RPC, id: null, result },
    "a result without an id": { jsonrpc: "2.0", result },
    "a result with a list as id": { ...RPC, id: ["$id"], result },
    "a result with true as id": { ...RPC, id: true, result },
    "a result with another string as id": { ...RPC, id: "request-$id", result },
  });
const INSTRUMENT_RESULT = { status: "Success", data: { stdout: "done", stderr: "" } };
const INSTRUMENT_CASES = [
  ...rpcCases(INSTRUMENT_RESULT),
  ...cases({
    "Success with an error": { ...RPC, result: { ...INSTRUMENT_RESULT, error: ERROR } },
    "neither Success nor Error": { ...RPC, result: { status: "succeeded" } },
  }),
];

const requestTo = (protocol: RequestChange["protocol"], dialect: string): RequestChange => ({
  protocol: protocol!,
  entrypoint: ["node", "./replies.mjs", dialect],
  timeout_ms: TEN_MINUTES,
  pool_key: dialect,
});

const createDataRoot = (): string => {
  const data_root = mkdtempSync(join(tmpdir(), "backplane-contradictions-"));
  onTestFinished(() => rmSync(data_root, { recursive: true, force: true }));
  return data_root;
};

function requirePid(outcome: RunOutcome): number {
  const output = (outcome.result as { structured_output?: { pid?: number } } | null)?.structured_output;
  expect(outcome.status, JSON.stringify(outcome.error)).toBe("succeeded");
  return output!.pid!;
}

/** The call ends as malformed, and the process keeps serving the same pool key. */
async function expectOnlyCallFails(
  test_runner: TestRunner,
  request: RequestChange,
  message: JsonObject,
): Promise<void> {
  const first_pid = requirePid(await test_runner.run({ ...request, input: { pid: true } }));
  const outcome = await test_runner.run({ ...request, input: { messages: [message] } });
  expect(outcome).toMatchObject({ status: "failed", error: { code: "malformed_response" } });
  expect(requirePid(await test_runner.run({ ...request, input: { pid: true } }))).toBe(first_pid);
}

/** The reply matches no request: all calls in flight end as malformed, and a new process takes the next call. */
async function expectProcessReplaced(
  test_runner: TestRunner,
  request: RequestChange,
  message: JsonObject,
): Promise<void> {
  const first_pid = requirePid(await test_runner.run({ ...request, input: { pid: true } }));
  const other_outcome = test_runner.run({ ...request, input: { messages: [] } });
  const outcome = test_runner.run({ ...request, input: { messages: [message] } });
  for (const ended of [await outcome, await other_outcome]) {
    expect(ended).toMatchObject({ status: "failed", error: { code: "malformed_response" } });
  }
  expect(requirePid(await test_runner.run({ ...request, input: { pid: true } }))).not.toBe(first_pid);
}

const checkAll = (list: readonly Case[], check: (reply_case: Case) => Promise<void>): Promise<unknown> =>
  Promise.all(
    list.map((reply_case) =>
      check(reply_case).catch((error: Error) => {
        throw new Error(`${reply_case.name}: ${error.message}`, { cause: error });
      }),
    ),
  );
/** Each case has its own process. */
const withOwnProcess = (request: RequestChange, { name }: Case): RequestChange => ({
  ...request,
  pool_key: name,
});

describe("vai.rpc.v1", () => {
  const request = requestTo("vai.rpc.v1", "vai");

  verifies(
    "wire.contradiction",
    "fails only the call that got a contradictory response, immediately and as malformed",
    async () => {
      const test_runner = createTestRunner();
      await checkAll(VAI_CASES, (reply_case) =>
        expectOnlyCallFails(test_runner, withOwnProcess(request, reply_case), reply_case.message),
      );
    },
    TEST_MS,
  );

  verifies(
    "wire.contradiction",
    "fails the calls in flight and stops the process after a response with an id of the wrong type",
    async () => {
      const test_runner = createTestRunner();
      await checkAll(VAI_WRONG_IDS, (reply_case) =>
        expectProcessReplaced(test_runner, withOwnProcess(request, reply_case), reply_case.message),
      );
    },
    TEST_MS,
  );

  test("accepts a null error with status succeeded", async () => {
    const message = { ...VAI, ok: true, body: BODY, error: null };
    const outcome = await createTestRunner().run({ ...request, input: { messages: [message] } });
    expect(outcome).toMatchObject({ status: "succeeded", violations: 0 });
  });

  verifies(
    "wire.reply.once",
    "keeps the first of two final responses and counts a response to an unknown request as a violation",
    async () => {
      const first = { ...VAI, ok: true, body: { status: "succeeded", result: 1 } };
      const second = { ...VAI, ok: true, body: BODY, error: ERROR };
      const unknown = { ...first, id: "req_stranger" };
      const outcome = await createTestRunner().run({
        ...request,
        input: { messages: [unknown, first, second] },
      });
      expect(outcome).toMatchObject({ status: "succeeded", result: 1 });
      expect(outcome.violations).toBeGreaterThan(0);
    },
  );
});

verifies(
  "wire.contradiction",
  "rterm.plugin.v1: fails a contradictory response immediately as malformed",
  async () => {
    const test_runner = createTestRunner();
    const request = requestTo("rterm.plugin.v1", "side");
    await checkAll(SIDE_CASES, async ({ message }) => {
      const outcome = await test_runner.run({ ...request, input: { messages: [message] } });
      expect(outcome).toMatchObject({ status: "failed", error: { code: "malformed_response" } });
    });
  },
  TEST_MS,
);

describe("hefty.jsonrpc", () => {
  const request = requestTo("hefty.jsonrpc", "instrument");
  const inOwnProject = (reply_case: Case): RequestChange => ({
    ...withOwnProcess(request, reply_case),
    // Processes of one plugin in one project take turns.
    context: { project_id: reply_case.name.replaceAll(/\W/g, "_") },
  });

  verifies(
    "wire.contradiction",
    "fails only the call that got a contradictory instrument answer, immediately and as malformed",
    async () => {
      const test_runner = createTestRunner({ data_root: createDataRoot() });
      await checkAll(INSTRUMENT_CASES, (reply_case) =>
        expectOnlyCallFails(test_runner, inOwnProject(reply_case), reply_case.message),
      );
    },
    TEST_MS,
  );

  verifies(
    "wire.contradiction",
    "fails the calls in flight and stops the process after an instrument answer that matches no request",
    async () => {
      const test_runner = createTestRunner({ data_root: createDataRoot() });
      const list = [
        ...rpcWrongIds(INSTRUMENT_RESULT),
        ...cases({ "an error with a null id": { ...RPC, id: null, error: RPC_ERROR } }),
      ];
      await checkAll(list, (reply_case) =>
        expectProcessReplaced(test_runner, inOwnProject(reply_case), reply_case.message),
      );
    },
    TEST_MS,
  );

  verifies("wire.contradiction", "rejects initialize with success and an error as malformed", async () => {
    const test_runner = createTestRunner({ data_root: createDataRoot() });
    const outcome = await test_runner.run({
      ...request,
      input: { pid: true },
      context: { config: { error: "no license" } },
    });
    expect(outcome).toMatchObject({ status: "failed", error: { code: "malformed_response" } });
  });

  verifies(
    "wire.contradiction",
    "rejects a module's Success with an error as malformed, in a process and inline",
    async () => {
      const base = createDataRoot();
      const folder = join(base, "package");
      mkdirSync(folder);
      const metadata = `{ name: "echo", category: "Application", description: "Says it back." }`;
      const answer = JSON.stringify({ ...INSTRUMENT_RESULT, error: ERROR });
      writeFileSync(
        join(folder, "plugin.mjs"),
        `export const Provider = { initialize() {}, instruments: [{ name: "echo", riskLevel: "ReadOnly",
          metadata: ${metadata}, invoke: async () => (${answer}) }] };`,
      );
      const host = await buildInstrumentHost(join(base, "instrument-host.mjs"));
      const test_runner = createTestRunner({
        folder,
        data_root: join(base, "data"),
        programs: { instruments: host },
      });
      const runtime = {
        protocol: "module.instrument" as const,
        transport: "stdio" as const,
        entrypoint: ["node", "./plugin.mjs#Provider"],
        env: {},
        instrument: { plugin_id: "own", author: "us", isolation: "InProcess" as const, dependencies: [] },
      };
      for (const execution_class of ["worker", "inline"] as const) {
        const outcome = await test_runner.run({
          class: execution_class,
          pool_key: `sha/bind_1@1/-/${execution_class}`,
          timeout_ms: TEN_MINUTES,
          package: { package_id: "hefty/own", runtime },
        });
        expect(outcome, execution_class).toMatchObject({
          status: "failed",
          error: { code: "malformed_response", message: expect.stringContaining("Success and an error") },
        });
      }
    },
    TEST_MS,
  );
});

verifies(
  "wire.contradiction",
  "module.tools: rejects a contradictory frame of a tool file immediately as malformed",
  async () => {
    const base = createDataRoot();
    mkdirSync(join(base, "tools"));
    writeFileSync(
      join(base, "tools", "echo.mjs"),
      `import { writeSync } from "node:fs";
      export default { description: "Writes past its host.", async execute({ frame }) {
        const body = JSON.stringify({ protocol: "vai.rpc.v1", ...frame });
        writeSync(1, "Content-Length: " + Buffer.byteLength(body) + "\\r\\n\\r\\n" + body);
        await new Promise(() => setInterval(() => {}, 1_000));
      } };`,
    );
    const program = fileURLToPath(new URL("../../../sdk/dist/tool-host.mjs", import.meta.url));
    await buildToolHost(program);
    const test_runner = createTestRunner({ folder: base, programs: { tool_files: program } });
    const request: RequestChange = {
      protocol: "module.tools",
      entrypoint: ["node"],
      timeout_ms: TEN_MINUTES,
    };
    for (const [index, { message }] of [...VAI_CASES, ...VAI_WRONG_IDS].entries()) {
      const id = `inv_tool_${index}`;
      const frame = { ...message, ...(message.id === "$id" ? { id } : {}) };
      const outcome = await test_runner.run({ ...request, invocation_id: id, input: { frame } });
      expect(outcome, JSON.stringify(message)).toMatchObject({ error: { code: "malformed_response" } });
    }
  },
  TEST_MS,
);

describe("mcp.stdio", () => {
  const request: RequestChange = { ...requestTo("mcp.stdio", "mcp"), native_name: "echo", class: "isolated" };

  verifies(
    "wire.contradiction",
    "fails only the call that got a contradictory reply, immediately and as malformed",
    async () => {
      const test_runner = createTestRunner();
      await checkAll(rpcCases(CONTENT), (reply_case) =>
        expectOnlyCallFails(
          test_runner,
          { ...withOwnProcess(request, reply_case), class: "worker" },
          reply_case.message,
        ),
      );
    },
    TEST_MS,
  );

  verifies(
    "wire.contradiction",
    "fails the calls in flight and stops the server after a reply that matches no request",
    async () => {
      const test_runner = createTestRunner();
      await checkAll(rpcWrongIds(CONTENT), (reply_case) =>
        expectProcessReplaced(
          test_runner,
          { ...withOwnProcess(request, reply_case), class: "worker" },
          reply_case.message,
        ),
      );
    },
    TEST_MS,
  );

  test("keeps a server that answers a notification with an error without an id", async () => {
    const test_runner = createTestRunner();
    const error_without_id = { jsonrpc: "2.0", error: { code: -32601, message: "Method not found" } };
    const messages = [error_without_id, { ...RPC, result: CONTENT }];
    const outcome = await test_runner.run({ ...request, class: "worker", input: { messages } });
    expect(outcome).toMatchObject({ status: "succeeded" });
    expect(outcome.violations).toBe(1);
  });

  verifies(
    "wire.reply.once",
    "keeps the first of two replies; the second, and one to an unknown request, count as violations",
    async () => {
      const messages = [
        { ...RPC, id: 9_999, result: {} },
        { ...RPC, result: CONTENT },
      ];
      const test_runner = createTestRunner();
      const outcome = await test_runner.run({ ...request, class: "worker", input: { messages } });
      expect(outcome).toMatchObject({ status: "succeeded", violations: 1 });
      const twice = [
        { ...RPC, result: CONTENT },
        { ...RPC, result: {}, error: RPC_ERROR },
      ];
      // Only the first violation of a process is logged, so the second reply needs a process of its own.
      const second_runner = createTestRunner();
      expect(
        await second_runner.run({ ...request, class: "worker", input: { messages: twice } }),
      ).toMatchObject({ status: "succeeded" });
      await until(() => second_runner.logs.some((line) => line.includes("violates its protocol")));
    },
  );
});

describe("mcp.http", () => {
  const fill = (message: JsonObject, { message: { id } }: ReceivedRequest): JsonObject =>
    JSON.parse(
      JSON.stringify(message).replaceAll('"$id"', String(id)).replaceAll('"$text"', `"${id}"`),
    ) as JsonObject;

  /** `contradict` sends the reply. The server keeps the connection open after an event. */
  async function expectMalformed(contradict: (reply: Reply, message: JsonObject) => void): Promise<void> {
    for (const { name, message } of [...rpcCases(CONTENT), ...rpcWrongIds(CONTENT)]) {
      const server = await startMcpHttpServer((request, reply) => {
        if (request.message.method !== "tools/call") return false;
        contradict(reply, fill(message, request));
        return true;
      });
      const outcome = await testRunnerFor(server).run(mcp(server, { timeout_ms: TEN_MINUTES }));
      expect(outcome.error, name).toMatchObject({ code: "malformed_response" });
    }
  }

  verifies(
    "wire.contradiction",
    "rejects a contradictory JSON reply immediately as malformed",
    () => expectMalformed((reply, message) => reply.json(message)),
    TEST_MS,
  );

  verifies(
    "wire.contradiction",
    "rejects a contradictory reply on an open event stream immediately as malformed",
    () => expectMalformed((reply, message) => reply.stream().event(message)),
    TEST_MS,
  );

  verifies("wire.contradiction", "rejects a result and an error under HTTP 400 as malformed", async () => {
    const server = await startMcpHttpServer((request, reply) => {
      if (request.message.method !== "tools/call") return false;
      reply.status(400, JSON.stringify(fill({ ...RPC, result: CONTENT, error: RPC_ERROR }, request)));
      return true;
    });
    const outcome = await testRunnerFor(server).run(mcp(server));
    expect(outcome.error).toMatchObject({ code: "malformed_response" });
  });
});
