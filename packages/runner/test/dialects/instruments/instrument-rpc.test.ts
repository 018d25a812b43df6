/** hefty.jsonrpc through the runner: described exports, results, cancellation, the data folder, the sandbox. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { buildInstrumentHost } from "../../../../../scripts/build-instrument-host.ts";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createConfinedTestRunner } from "../../support/confined-runner.ts";
import { type RequestChange, requestOf } from "../../support/request.ts";
import { createTestRunner, type TestRunner, until } from "../../support/runner.ts";

const base = mkdtempSync(join(tmpdir(), "backplane-instrument-rpc-"));
const SDK_FIXTURES = fileURLToPath(new URL("../../../../sdk/test/fixtures", import.meta.url));
let host = "";
beforeAll(async () => {
  host = await buildInstrumentHost(join(base, "instrument-host.mjs"));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

interface InstrumentRunner {
  test_runner: TestRunner;
  data: string;
  /** The lines that the plugin wrote to its data folder. */
  log: () => string[];
}

function createInstrumentRunner(
  create: typeof createTestRunner = createTestRunner,
  options: Parameters<typeof createTestRunner>[0] = {},
): InstrumentRunner {
  const data_root = mkdtempSync(join(tmpdir(), "backplane-data-"));
  const test_runner = create({ data_root, programs: { instruments: host }, ...options });
  onTestFinished(() => rmSync(data_root, { recursive: true, force: true }));
  const data = join(data_root, "plugins/acme+fixture/org_1/org");
  return { test_runner, data, log: () => readFileSync(join(data, "log"), "utf8").trimEnd().split("\n") };
}

function instrument(behavior: string, change: RequestChange = {}): RequestChange {
  return { protocol: "hefty.jsonrpc", entrypoint: ["node", "./instrument.mjs", behavior], ...change };
}

const describeExports = ({ runner, mark }: TestRunner, change: RequestChange) =>
  runner.describe!({ ...requestOf({ ...change, env: { MARK: mark } }), timeout_ms: 30_000 });

verifies(
  "instr.instrument",
  "turns the listed instruments into exports with an origin set by the host",
  async () => {
    const { test_runner } = createInstrumentRunner();
    const described = await describeExports(test_runner, instrument("good"));
    const [echo, count, fail, , fetch, windows] = described.exports;
    expect(echo).toMatchObject({
      id: "echo",
      kind: "tool",
      description: "The instrument echo.",
      default_timeout_ms: 5_000,
      max_timeout_ms: 10_000,
      tool: { effect_class: "read_only", risk: "low", category: "Application", keywords: ["say"] },
    });
    expect(described.schemas[echo?.tool.input_schema ?? ""]).toEqual({ type: "object", required: ["text"] });
    expect(count).toMatchObject({
      max_concurrency: 1,
      tool: {
        effect_class: "unknown",
        risk: "medium",
        side_effects: ["writes files"],
        rules: [
          { when: [{ pointer: "/by", matches: "^9" }], action: "raise", risk: "critical", reason: "counts" },
        ],
      },
    });
    expect(echo).not.toHaveProperty("max_concurrency");
    expect([fail?.tool.risk, fetch?.tool.risk, windows?.tool.risk]).toEqual(["high", "medium", "critical"]);
    expect(windows?.tool.load_error).toBe("The instrument windows runs on Windows only.");
    expect(described.info).toMatchObject({ plugin_id: "fixture", origin: "plugin:fixture" });
    expect(JSON.stringify(described)).not.toContain("core");
    expect(described.warnings).toEqual([
      expect.stringContaining("The instrument fetch is of category Network and lists no sideEffects"),
      "The instrument windows runs on Windows only.",
    ]);
  },
);

verifies(
  "secret.rotate",
  "restarts a plugin whose secrets changed, if it gets them only at its start",
  async () => {
    const { log, test_runner } = createInstrumentRunner();
    const callWithToken = async (api_token: string, change: RequestChange = {}) =>
      await test_runner.run(
        instrument("good", { context: { secrets: { api_token } }, input: {}, ...change }),
      );
    const tokens = () => log().flatMap((line) => /"api_token":"([^"]+)"/.exec(line)?.[1] ?? []);
    await callWithToken("first-value");
    await callWithToken("first-value");
    expect(tokens()).toEqual(["first-value"]);
    const long = callWithToken("first-value", { export_id: "sleep", input: { ms: 300 } });
    await new Promise((resolve) => setTimeout(resolve, 100));
    const next = callWithToken("second-value");
    // Calls in flight finish, and no other process uses the folder until then.
    expect([(await long).status, (await next).status]).toEqual(["succeeded", "succeeded"]);
    expect(tokens()).toEqual(["first-value", "second-value"]);
  },
);

verifies(
  "instr.rpc",
  "runs initialize, invoke with the activity id, healthCheck and shutdown against a real process",
  async () => {
    const { data, log, test_runner } = createInstrumentRunner();
    const context = {
      config: { "base-url": "https://x", nested: { deep: 1, list: [1, 2], none: null } },
      secrets: { api_token: "s3cret-value" },
      session_id: "sess_1",
      run_id: "run_1",
    };
    const outcome = await test_runner.run(instrument("good", { context, input: { text: "hi" } }));
    expect(outcome.status).toBe("succeeded");
    expect((outcome.result as { structured_output: unknown }).structured_output).toEqual({
      call: {
        instrument: "echo",
        params: { text: "hi" },
        activityId: "run_1",
        sessionId: "sess_1",
        traceId: "tr_1",
        timeoutMs: expect.any(Number),
        dataDirPath: data,
        invocationId: expect.stringMatching(/^inv_/),
      },
      config: {
        "base-url": "https://x",
        "nested.deep": "1",
        "nested.list": "[1,2]",
        api_token: "[redacted]",
      },
    });
    expect(JSON.parse(log()[0] ?? "")).toMatchObject({
      pluginId: "fixture",
      dataDir: data,
      heftyVersion: "0.22.0",
      config: { api_token: "s3cret-value" },
    });
    const request = requestOf({ ...instrument("good", { context }), env: { MARK: test_runner.mark } });
    const checkHealth = (name: string) =>
      test_runner.runner.request!(
        { ...request, method: "healthCheck", params: { instrument: name } },
        { notify: () => {}, answerRequest: () => Promise.reject(new Error("There is no caller.")) },
      );
    expect(await checkHealth("echo")).toEqual({ status: "Healthy", message: "echo" });
    expect(await checkHealth("fail")).toEqual({ status: "Unhealthy", message: "fail" });
    expect(test_runner.runner.health().processes).toBe(1);
    await test_runner.runner.close(2_000);
    expect(log().at(-1)).toBe("shutdown");
  },
);

describe("results and failures", () => {
  const structured = { stdout: "counted 1", stderr: "" };
  verifies("instr.result", "converts stdout, stderr, status and error to one tool result", async () => {
    const { test_runner } = createInstrumentRunner();
    expect(await test_runner.run(instrument("good", { export_id: "count" }))).toMatchObject({
      status: "succeeded",
      error: null,
      result: {
        content: [{ type: "text", text: "counted 1" }],
        structured_output: structured,
        is_error: false,
      },
    });
    expect(await test_runner.run(instrument("good", { export_id: "fail" }))).toMatchObject({
      status: "failed",
      error: {
        code: "plugin_failed",
        message: "Could not reach API",
        details: { plugin_code: "CONNECTION_ERROR", details: { host: "x" } },
      },
      result: {
        content: [{ type: "text", text: "refused" }],
        structured_output: { stdout: "", stderr: "refused" },
        is_error: true,
      },
    });
  });

  test.each([
    ["that refuses to initialize", "handshake_failed", "refuses", "requires base-url and api-token"],
    ["that reports no success for initialize", "handshake_failed", "no-success", "no license"],
    ["that returns an invalid result", "malformed_response", "malformed", "neither Success nor Error"],
  ])("a call to a plugin %s fails with %s", async (_, code, behavior, expected_text) => {
    const { test_runner } = createInstrumentRunner();
    const outcome = await test_runner.run(instrument(behavior));
    expect(outcome).toMatchObject({
      status: "failed",
      error: { code, message: expect.stringContaining(expected_text) },
    });
  });

  test("fails the calls of a crashed process and starts a new one for the next call", async () => {
    const { test_runner } = createInstrumentRunner();
    expect(await test_runner.run(instrument("good", { export_id: "crash" }))).toMatchObject({
      error: { code: "crashed" },
    });
    expect(await test_runner.run(instrument("good"))).toMatchObject({ status: "succeeded" });
  });

  test("reports invalid instruments with the reason", async () => {
    const { test_runner } = createInstrumentRunner();
    await expect(describeExports(test_runner, instrument("twice"))).rejects.toMatchObject({
      code: "malformed_response",
      message: expect.stringContaining("offers the instrument echo twice"),
    });
  });
});

test("cancels a call at its deadline and keeps a plugin that reacts to it", async () => {
  const { log, test_runner } = createInstrumentRunner();
  expect(await test_runner.run(instrument("good"))).toMatchObject({ status: "succeeded" });
  const timed_out = await test_runner.run(instrument("good", { export_id: "sleep", timeout_ms: 1_500 }));
  expect(timed_out).toMatchObject({ status: "failed", error: { code: "timeout" } });
  expect(log()).toContain("cancel deadline_exceeded");
  expect(await test_runner.run(instrument("good"))).toMatchObject({ status: "succeeded" });
  expect(log().filter((line) => line.startsWith("{"))).toHaveLength(1);
});

test("kills a plugin that ignores a cancel", async () => {
  const { test_runner } = createInstrumentRunner(createTestRunner, { timeouts: { cancel_grace_ms: 50 } });
  expect(await test_runner.run(instrument("stubborn"))).toMatchObject({ status: "succeeded" });
  const timed_out = await test_runner.run(instrument("stubborn", { export_id: "sleep", timeout_ms: 1_500 }));
  expect(timed_out).toMatchObject({ status: "failed", error: { code: "timeout" } });
  await until(() => test_runner.runner.health().processes === 0);
});

describe("the data folder", () => {
  test("persists across processes and is used by one process of a binding at a time", async () => {
    const { data, test_runner } = createInstrumentRunner();
    const countWithKey = (pool_key: string) =>
      test_runner.run(instrument("good", { export_id: "count", input: {}, pool_key }));
    const outcomes = [];
    // Another grant or generation means another process.
    for (const key of ["a", "b", "a"]) outcomes.push(await countWithKey(key));
    outcomes.push(...(await Promise.all(["a", "b", "c"].map(countWithKey))));
    expect(outcomes.map(({ error, status }) => error ?? status)).toEqual(outcomes.map(() => "succeeded"));
    expect(readFileSync(join(data, "count"), "utf8")).toBe("6");
    expect(existsSync(join(data, "overlap"))).toBe(false);
  });

  test("belongs to the plugin: a later binding finds it, and two bindings never use it at the same time", async () => {
    const { data, test_runner } = createInstrumentRunner();
    const countInBinding = (binding_id: string) =>
      test_runner.run(
        instrument("good", { export_id: "count", input: {}, binding_id, pool_key: `${binding_id}/1` }),
      );
    await countInBinding("bind_1");
    test_runner.runner.retire("bind_1");
    await countInBinding("bind_2");
    expect(readFileSync(join(data, "count"), "utf8")).toBe("2");
    await Promise.all(["bind_2", "bind_3", "bind_2", "bind_3"].map(countInBinding));
    expect(readFileSync(join(data, "count"), "utf8")).toBe("6");
    expect(existsSync(join(data, "overlap"))).toBe(false);
  });

  test("adopts the folder that an earlier version created for the first binding; a second binding keeps its own", async () => {
    const { data, test_runner } = createInstrumentRunner();
    const root = data.replace(/\/plugins\/.*/, "");
    const earlierCount = (binding_id: string) => join(root, binding_id, "org", "count");
    for (const [binding_id, count] of [
      ["bind_1", "40"],
      ["bind_2", "70"],
    ] as const) {
      mkdirSync(dirname(earlierCount(binding_id)), { recursive: true });
      writeFileSync(earlierCount(binding_id), count);
    }
    const countInBinding = (binding_id: string) =>
      test_runner.run(
        instrument("good", { export_id: "count", input: {}, binding_id, pool_key: `${binding_id}/1` }),
      );
    for (const binding_id of ["bind_1", "bind_2", "bind_1"]) await countInBinding(binding_id);
    expect(readFileSync(join(data, "count"), "utf8")).toBe("42");
    expect(existsSync(earlierCount("bind_1"))).toBe(false);
    expect(readFileSync(earlierCount("bind_2"), "utf8")).toBe("71");
  });

  test("is separate for each project", async () => {
    const { data, test_runner } = createInstrumentRunner();
    const countInProject = (project_id: string) =>
      test_runner.run(
        instrument("good", { export_id: "count", pool_key: project_id, context: { project_id } }),
      );
    await Promise.all([countInProject("proj_a"), countInProject("proj_b")]);
    const counts = ["proj_a", "proj_b"].map((name) => readFileSync(join(data, "..", name, "count"), "utf8"));
    expect(counts).toEqual(["1", "1"]);
  });
});

describe("in the sandbox", () => {
  const isolated = { class: "isolated" } as const;

  test("keeps an isolated plugin running and lets it write to its data folder", async () => {
    const { data, test_runner } = createInstrumentRunner(createConfinedTestRunner);
    const count = instrument("good", { ...isolated, export_id: "count" });
    expect(await test_runner.run(count)).toMatchObject({ status: "succeeded" });
    expect(await test_runner.run(count)).toMatchObject({
      result: { structured_output: { stdout: "counted 2" } },
    });
    expect(test_runner.runner.health().processes).toBe(1);
    const outcome = await test_runner.run(instrument("good", isolated));
    expect((outcome.result as { structured_output: unknown }).structured_output).toMatchObject({
      call: { dataDirPath: "/sandbox/data" },
    });
    expect(readFileSync(join(data, "count"), "utf8")).toBe("2");
    // Another slot has another user, which then owns the folder.
    expect(await test_runner.run({ ...count, pool_key: "other" })).toMatchObject({
      result: { structured_output: { stdout: "counted 3" } },
    });
  });

  verifies(
    "instr.external-host",
    "runs a module in the sandbox with the host program mounted next to it",
    async () => {
      const { data, test_runner } = createInstrumentRunner(createConfinedTestRunner, {
        folder: SDK_FIXTURES,
      });
      const module = {
        ...isolated,
        protocol: "hefty.jsonrpc" as const,
        entrypoint: ["backplane-instrument-host", "./greeter-provider.ts#GreeterProvider"],
      };
      const described = await test_runner.runner.describe!({ ...requestOf(module), timeout_ms: 30_000 });
      expect(described.exports.map(({ id }) => id)).toEqual(["greet", "think"]);
      const outcome = await test_runner.run({ ...module, export_id: "greet", input: { name: "Ada" } });
      expect(outcome).toMatchObject({
        status: "succeeded",
        result: { content: [{ type: "text", text: "Hello, Ada! (1)" }] },
      });
      expect(readFileSync(join(data, "count"), "utf8")).toBe("1");
    },
  );
});
