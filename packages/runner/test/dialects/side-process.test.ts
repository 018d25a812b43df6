/** rterm.plugin.v1 with real processes: each misbehavior has exactly one error code and leaves nothing behind. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { DEFAULT_TIMEOUTS } from "../../src/index.ts";
import { requestOf, side } from "../support/request.ts";
import { createTestRunner, isAlive, processesWith, type TestRunner, until } from "../support/runner.ts";

/** Returns a file for the plugin to record the lines that it receives, and a function that reads them. */
function createLineRecord(test_runner: TestRunner): { file: string; lines: () => Record<string, unknown>[] } {
  const file = join(test_runner.scratch_root, "seen");
  const lines = () =>
    existsSync(file)
      ? readFileSync(file, "utf8")
          .split("\n")
          .slice(0, -1)
          .map((line) => JSON.parse(line))
      : [];
  return { file, lines };
}

/** For several processes in a row on a machine with ten times as much work as it can handle. */
const BUSY_MS = 120_000;

verifies(
  ["side.handshake", "side.execute", "side.wire"],
  "exchanges a handshake and a request, and the process exits",
  async () => {
    const test_runner = createTestRunner();
    const { file, lines } = createLineRecord(test_runner);
    const outcome = await test_runner.run(
      side("ok", { invocation_id: "inv_wire", input: { q: "billing", n: 3 }, env: { SEEN: file } }),
    );
    expect(outcome).toEqual({
      status: "succeeded",
      result: {
        content: [{ type: "text", text: '{"q":"billing","n":3}' }],
        structured_output: { q: "billing", n: 3 },
        is_error: false,
      },
      error: null,
      violations: 0,
      stderr_tail: null,
      egress: null,
      dispatched: true,
    });
    expect(lines()).toEqual([
      { type: "handshake", protocol_version: "rterm.plugin.v1" },
      {
        type: "request",
        request_id: "inv_wire",
        tool_name: "echo",
        context: expect.objectContaining({ invocation_id: "inv_wire", org_id: "org_1" }),
        input: { q: "billing", n: 3 },
      },
    ]);
    expect(test_runner.runner.health()).toMatchObject({ processes: 0, running: 0 });
    expect(DEFAULT_TIMEOUTS).toMatchObject({ launch_ms: 2_000, handshake_ms: 2_000, teardown_ms: 500 });
  },
);

test("converts output that is text, and missing output, to a tool result", async () => {
  const test_runner = createTestRunner();
  expect((await test_runner.run(side("text"))).result).toEqual({
    content: [{ type: "text", text: "plain words" }],
    structured_output: "plain words",
    is_error: false,
    metadata: { took: 3 },
  });
  expect((await test_runner.run(side("nothing"))).result).toMatchObject({
    content: [],
    structured_output: null,
  });
});

test("reports an error with a message as the plugin's own failure", async () => {
  expect(await createTestRunner().run(side("error"))).toMatchObject({
    status: "failed",
    error: { code: "plugin_failed", message: "no such user", details: { plugin_code: "E1" } },
    dispatched: true,
    violations: 0,
  });
});

verifies(
  "side.execute",
  "counts a violation for a process that does not exit cleanly after its answer, and keeps the result",
  async () => {
    const test_runner = createTestRunner({ timeouts: { teardown_ms: 100 } });
    expect(await test_runner.run(side("exits-one-after"))).toMatchObject({
      status: "succeeded",
      violations: 1,
    });
    const started = performance.now();
    expect(await test_runner.run(side("stays-after"))).toMatchObject({ status: "succeeded", violations: 1 });
    // The process would stay for a minute.
    expect(performance.now() - started).toBeLessThan(40_000);
    expect(await test_runner.run(side("dies-on-request"))).toMatchObject({
      status: "failed",
      error: { code: "crashed" },
    });
    const forked = await test_runner.run(side("forks"));
    const { grandchild } = (forked.result as { structured_output: { grandchild: number } }).structured_output;
    expect(grandchild).toBeGreaterThan(0);
    await until(() => !isAlive(grandchild));
  },
  BUSY_MS,
);

verifies(
  ["side.spec", "side.error.handshake_failed"],
  "fails with handshake_failed before sending a request: wrong plugin_id, invalid manifest, silence, extra line",
  async () => {
    const test_runner = createTestRunner({ timeouts: { handshake_ms: 500 } });
    const { file, lines } = createLineRecord(test_runner);
    for (const behavior of [
      "wrong-id",
      "no-manifest",
      "no-tools-field",
      "handshake-not-json",
      "handshake-twice",
      "stalls-handshake",
    ]) {
      const outcome = await test_runner.run(side(behavior, { env: { SEEN: file } }));
      expect([behavior, outcome.error?.code]).toEqual([behavior, "handshake_failed"]);
      expect(outcome).toMatchObject({ status: "failed", result: null, dispatched: false });
    }
    expect(lines().every((line) => line.type === "handshake")).toBe(true);
    expect((await test_runner.run(side("wrong-id", { pool_key: "fresh" }))).error?.message).toContain(
      "acme/stranger",
    );
    expect((await test_runner.run(side("short-id"))).status).toBe("succeeded");
  },
  BUSY_MS,
);

verifies(
  ["side.env", "side.spec"],
  "takes the command, args and env from the package and inherits no variable of the host",
  async () => {
    process.env.BACKPLANE_TEST_LEAK = "leaked";
    const test_runner = createTestRunner();
    const outcome = await test_runner.run(side("environment", { env: { GREETING: "hi", PATH: "/evil" } }));
    delete process.env.BACKPLANE_TEST_LEAK;
    const { env, args } = (outcome.result as { structured_output: { env: object; args: string[] } })
      .structured_output;
    expect(env).toEqual({
      PATH: "/usr/local/bin:/usr/bin:/bin",
      HOME: "/nonexistent",
      TMPDIR: "/nonexistent",
      LANG: "C.UTF-8",
      PYTHONDONTWRITEBYTECODE: "1",
      MARK: test_runner.mark,
      BACKPLANE_PROCESS_ID: expect.stringMatching(/^[0-9a-f]{32}$/),
      GREETING: "hi",
      ...("LC_CTYPE" in env ? { LC_CTYPE: env.LC_CTYPE } : {}),
    });
    expect(args).toEqual(["./side.py", "environment"]);
  },
);

verifies(
  ["side.env", "side.error.launch_failed"],
  "does not start a command that is missing, not executable or shell text",
  async () => {
    const test_runner = createTestRunner();
    const launch = (...entrypoint: string[]) => test_runner.run({ protocol: "rterm.plugin.v1", entrypoint });
    for (const entrypoint of [["no-such-program"], ["./missing"], ["./side.py"], ["echo hi; touch ran"]]) {
      expect(await launch(...entrypoint)).toMatchObject({
        status: "failed",
        error: { code: "launch_failed", message: expect.stringContaining(entrypoint[0]!) },
        dispatched: false,
      });
    }
    expect(existsSync("ran")).toBe(false);
    const literal = await launch("python3", "./side.py", "environment", "$(touch ran)", "; true", "*");
    expect((literal.result as { structured_output: object }).structured_output).toMatchObject({
      args: ["./side.py", "environment", "$(touch ran)", "; true", "*"],
    });
  },
);

verifies(
  ["side.timeout", "side.error.timeout"],
  "enforces the host's deadline at every step",
  async () => {
    const test_runner = createTestRunner({ timeouts: { handshake_ms: 60_000 } });
    for (const behavior of ["stalls", "ignores-term", "stalls-handshake"]) {
      const started = performance.now();
      const outcome = await test_runner.run(side(behavior, { timeout_ms: 400 }));
      expect(outcome).toMatchObject({ status: "failed", result: null, error: { code: "timeout" } });
      // The process would stall for a minute.
      expect(performance.now() - started).toBeLessThan(40_000);
    }
  },
  BUSY_MS,
);

verifies(
  "side.error.crashed",
  "fails with crashed, exit code and last line of stderr if the process exits before its answer",
  async () => {
    const test_runner = createTestRunner();
    const early = await test_runner.run(side("dies-at-once"));
    expect(early).toMatchObject({ error: { code: "crashed", details: { exit_code: 3 } }, dispatched: false });
    const between = await test_runner.run(side("dies-after-handshake"));
    expect(between.error).toMatchObject({ code: "crashed", details: { exit_code: 9 } });
    expect(between.error?.message).toContain("cannot go on");
    const after_request = await test_runner.run(side("dies-on-request"));
    expect(after_request).toMatchObject({
      error: { code: "crashed", details: { exit_code: 7 } },
      stderr_tail: "boom\n",
      dispatched: true,
    });
    expect(after_request.error?.message).toContain("boom");
    expect((await test_runner.run(side("exits-zero-without-answer"))).error?.code).toBe("crashed");
  },
);

verifies(
  ["side.error.malformed_response", "side.no-silent-success"],
  "never turns a protocol error into a success",
  async () => {
    const test_runner = createTestRunner();
    for (const behavior of [
      "answer-not-json",
      "answer-for-stranger",
      "answers-twice",
      "prints-after",
      "ok-with-error",
      "error-without-message",
      "floods-stdout",
    ]) {
      const outcome = await test_runner.run(side(behavior));
      expect([behavior, outcome.error?.code]).toEqual([behavior, "malformed_response"]);
      expect(outcome).toMatchObject({ status: "failed", result: null });
    }
    expect((await test_runner.run(side("dies-on-request"))).status).toBe("failed");
  },
);

verifies(
  ["side.tool-exposed", "side.error.tool_not_exposed"],
  "never calls a tool that the handshake does not list",
  async () => {
    const test_runner = createTestRunner();
    const { file, lines } = createLineRecord(test_runner);
    for (const behavior of ["no-tools", "other-tool"]) {
      expect(await test_runner.run(side(behavior, { env: { SEEN: file } }))).toMatchObject({
        status: "failed",
        error: { code: "tool_not_exposed" },
        dispatched: false,
      });
    }
    expect(lines().map((line) => line.type)).toEqual(["handshake", "handshake"]);
  },
);

verifies("side.error.protocol_version_mismatch", "rejects another protocol_version", async () => {
  expect(await createTestRunner().run(side("wrong-version"))).toMatchObject({
    status: "failed",
    error: { code: "protocol_version_mismatch" },
    dispatched: false,
  });
});

describe("capabilities", () => {
  const runWithGrant = (test_runner: TestRunner, behavior: string, capabilities: string[]) =>
    test_runner.run(side(behavior, { grant: { capabilities } }));

  verifies(
    ["side.capability.subset", "side.error.capability_not_declared", "side.error.capability_not_allowed"],
    "rejects capabilities beyond the grant, and grants none just because the handshake lists them",
    async () => {
      const test_runner = createTestRunner();
      expect((await runWithGrant(test_runner, "ok", ["net.http"])).error?.code).toBe(
        "capability_not_declared",
      );
      expect((await runWithGrant(test_runner, "asks-none", ["net.http"])).error?.code).toBe(
        "capability_not_declared",
      );
      expect((await runWithGrant(test_runner, "asks-net", [])).error?.code).toBe("capability_not_allowed");
      const wider = await runWithGrant(test_runner, "asks-net-and-fs", ["net.http"]);
      expect(wider.error).toMatchObject({
        code: "capability_not_allowed",
        details: { forbidden: ["fs.read"] },
      });
      expect((await runWithGrant(test_runner, "asks-net", ["net.http", "fs.read"])).status).toBe("succeeded");
      expect((await runWithGrant(test_runner, "asks-none", [])).status).toBe("succeeded");
      for (const behavior of ["asks-empty", "asks-padded", "asks-twice"]) {
        const outcome = await runWithGrant(test_runner, behavior, ["net.http", ""]);
        expect([behavior, outcome.status, outcome.error?.code]).toEqual([
          behavior,
          "failed",
          "handshake_failed",
        ]);
      }
    },
  );
});

test("uses scratch as the home of the process and removes it afterwards", async () => {
  const test_runner = createTestRunner();
  const outcome = await test_runner.run(
    side("scratch", { invocation_id: "inv_s", grant: { filesystem: "scratch" } }),
  );
  const dir = join(test_runner.scratch_root, "inv_s");
  expect((outcome.result as { structured_output: object }).structured_output).toEqual({ dir, home: dir });
  expect(readdirSync(test_runner.scratch_root)).toEqual([]);
});

test("kills the process of a cancelled call immediately", async () => {
  const test_runner = createTestRunner();
  const { file, lines } = createLineRecord(test_runner);
  const running = test_runner.run(side("ignores-term", { invocation_id: "inv_c", env: { SEEN: file } }));
  await until(() => lines().length === 2);
  expect(test_runner.runner.cancel("inv_c", "user")).toBe(true);
  expect(await running).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
  expect(processesWith(test_runner.mark)).toEqual([]);
});

test("rejects hooks", async () => {
  const outcome = await createTestRunner().run(side("ok", { op: "hook.handle" }));
  expect(outcome).toMatchObject({ error: { code: "launch_failed" }, dispatched: false });
});

verifies("side.tool-name", "uses the plugin's own tool name and plugin id", async () => {
  const test_runner = createTestRunner();
  const request = requestOf(side("foreign-names", { env: { MARK: test_runner.mark } }));
  const runAs = (plugin_id: string, native_name: string) =>
    test_runner.run({
      ...request,
      invocation_id: `inv_${plugin_id.length}_${native_name.length}`,
      native_name,
      package: { ...request.package, runtime: { ...request.package.runtime, plugin_id } },
    });
  expect(await runAs("Python.Echo", "plugin.python_echo")).toMatchObject({
    status: "succeeded",
    result: { structured_output: "plugin.python_echo" },
  });
  expect((await runAs("Python.Echo", "python_echo")).error).toMatchObject({
    code: "tool_not_exposed",
    message: "The plugin does not expose python_echo; it exposes plugin.python_echo.",
  });
  expect((await runAs("acme/fixture", "plugin.python_echo")).error?.code).toBe("handshake_failed");
});
