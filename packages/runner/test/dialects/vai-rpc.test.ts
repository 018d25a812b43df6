/** vai.rpc.v1 through the runner: answers, cancel, deadline, shutdown, context. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { VAI_TIMEOUTS } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { DEFAULT_TIMEOUTS, PLUGIN_PATH } from "../../src/index.ts";
import { FIXTURES, vai } from "../support/request.ts";
import { createTestRunner, isAlive, processesWith, type TestRunner, until } from "../support/runner.ts";

function readFrames(file: string): { type: string; reason?: string }[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

test.each([
  ["echo", "succeeded", null, null],
  ["fails", "failed", "plugin_failed", "no such issue"],
  ["fails-with-error", "failed", "plugin_failed", "quota is used up"],
  ["asks-for-retry", "retryable_failure", "plugin_retryable", "busy, come back"],
  ["cancels-itself", "cancelled", "cancelled", null],
  ["ok-false", "failed", "plugin_protocol_error", "missing body"],
  ["no-status", "failed", "malformed_response", null],
])("behavior %s: the call ends as %s with error code %s", async (behavior, status, code, expected_text) => {
  const outcome = await createTestRunner().run(vai(behavior));
  expect(outcome).toMatchObject({ status, dispatched: true, violations: 0 });
  expect(outcome.error?.code ?? null).toBe(code);
  if (expected_text !== null) expect(outcome.error?.message).toContain(expected_text);
});

test("accepts ack from a hook", async () => {
  const outcome = await createTestRunner().run(vai("ack", { op: "hook.handle" }));
  expect(outcome).toMatchObject({ status: "succeeded", result: null, error: null });
});

test("delivers events in order before the outcome", async () => {
  const test_runner = createTestRunner();
  await test_runner.run(vai("tells-events", { input: { step: "x" } }));
  expect(test_runner.events).toEqual([1, 2, 3].map((n) => ({ type: "progress", n, step: "x" })));
});

verifies(
  "vai.hello.identity",
  "kills a process with another identity before sending a request, and records the mismatch",
  async () => {
    const test_runner = createTestRunner();
    const frames_file = join(test_runner.scratch_root, "seen");
    const outcome = await test_runner.run(vai("wrong-identity", { env: { SEEN: frames_file } }));
    expect(outcome).toMatchObject({
      status: "failed",
      dispatched: false,
      error: { code: "handshake_failed" },
    });
    expect(outcome.error?.details).toMatchObject({
      expected: { package_id: "acme/fixture", version: "1.0.0" },
      got: { package_id: "acme/other", version: "9.9.9" },
    });
    expect(processesWith(test_runner.mark)).toEqual([]);
    expect(readFrames(frames_file).filter((frame) => frame.type === "request")).toEqual([]);
  },
);

verifies(
  "vai.cancel",
  "sends a cancel at the deadline and fails with timeout; closing the runner kills the process trees",
  async () => {
    // Long enough for a plugin on a busy machine to record the cancel.
    const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 2_000 } });
    const frames_file = join(test_runner.scratch_root, "seen");
    const env = { SEEN: frames_file };
    const forked = await test_runner.run(vai("forks", { env }));
    const { pid, grandchild } = forked.result as { pid: number; grandchild: number };
    expect([isAlive(pid), isAlive(grandchild)]).toEqual([true, true]);
    // Starts the process first, so that the deadline covers the call alone.
    await test_runner.run(vai("hangs-on-request", { env, input: {} }));
    const hung = await test_runner.run(
      vai("hangs-on-request", { timeout_ms: 2_000, env, input: { hang: true } }),
    );
    expect(hung).toMatchObject({
      status: "failed",
      result: null,
      error: { code: "timeout" },
      dispatched: true,
    });
    expect(readFrames(frames_file)).toContainEqual(
      expect.objectContaining({ type: "cancel", reason: "deadline_exceeded" }),
    );
    test_runner.runner.retire("bind_1");
    await test_runner.runner.close(300);
    expect([isAlive(pid), isAlive(grandchild)]).toEqual([false, false]);
  },
);

verifies(
  "vai.cancel",
  "kills the tree of a plugin that ignores a cancel by the user, and ends the call as cancelled",
  async () => {
    const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 200 } });
    const frames_file = join(test_runner.scratch_root, "seen");
    const running = test_runner.run(
      vai("ignores-everything", { invocation_id: "inv_u", env: { SEEN: frames_file } }),
    );
    await until(() => readFrames(frames_file).some((frame) => frame.type === "request"));
    expect(test_runner.runner.cancel("inv_u", "user")).toBe(true);
    expect(test_runner.runner.cancel("inv_u", "user")).toBe(true);
    expect(await running).toMatchObject({
      status: "cancelled",
      error: { code: "cancelled" },
      dispatched: true,
    });
    expect(test_runner.runner.cancel("inv_u", "user")).toBe(false);
    await until(() => processesWith(test_runner.mark).length === 0);
  },
);

verifies(
  "vai.cancel",
  "treats a reply within the grace period as an acknowledgement, and keeps the process",
  async () => {
    const test_runner = createTestRunner();
    const timed_out = await test_runner.run(vai("succeeds-after-cancel", { timeout_ms: 300 }));
    expect(timed_out).toMatchObject({
      status: "failed",
      result: null,
      error: { code: "timeout" },
      violations: 0,
    });
    const frames_file = join(test_runner.scratch_root, "seen");
    const running = test_runner.run(
      vai("acknowledges-cancel", { invocation_id: "inv_a", env: { SEEN: frames_file } }),
    );
    await until(() => readFrames(frames_file).some((frame) => frame.type === "request"));
    const started = performance.now();
    test_runner.runner.cancel("inv_a", "user");
    expect(await running).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
    expect(performance.now() - started).toBeLessThan(VAI_TIMEOUTS.cancel_grace_ms);
    expect(processesWith(test_runner.mark)).toHaveLength(2);
  },
);

verifies(
  "vai.cancel",
  "kills the process of a call that ignores its cancel; other calls on it end as crashed",
  async () => {
    const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 100 } });
    await test_runner.run(vai("hangs-on-request", { input: {} }));
    const other = test_runner.run(vai("hangs-on-request", { input: { slow: true } }));
    const hanging = test_runner.run(vai("hangs-on-request", { timeout_ms: 2_000, input: { hang: true } }));
    expect(await hanging).toMatchObject({ error: { code: "timeout" } });
    expect(await other).toMatchObject({ status: "failed", error: { code: "crashed" }, dispatched: true });
    expect((await other).error?.message).toContain("ignored its cancel");
  },
);

verifies(
  "vai.shutdown",
  "sends shutdown on unload and kills a process that ignores it after the grace period",
  async () => {
    const test_runner = createTestRunner({ timeouts: { shutdown_grace_ms: 300 } });
    const frames_file = join(test_runner.scratch_root, "seen");
    await test_runner.run(vai("echo", { env: { SEEN: frames_file } }));
    await test_runner.run(vai("ignores-everything", { timeout_ms: 50, invocation_id: "inv_i" }));
    test_runner.runner.retire("bind_1");
    await until(() => processesWith(test_runner.mark).length === 0);
    expect(readFrames(frames_file).at(-1)).toMatchObject({ type: "shutdown" });
    await until(() => test_runner.runner.health().processes === 0);
  },
);

verifies(
  "vai.shutdown",
  "ends calls and kills unresponsive processes within the grace period when the host shuts down",
  async () => {
    const test_runner = createTestRunner({
      timeouts: { cancel_grace_ms: 60_000, shutdown_grace_ms: 60_000 },
    });
    const frames_file = join(test_runner.scratch_root, "seen");
    await test_runner.run(vai("echo"));
    const running = test_runner.run(vai("ignores-everything", { env: { SEEN: frames_file } }));
    await until(() => readFrames(frames_file).some((frame) => frame.type === "request"));
    const started = performance.now();
    await test_runner.runner.close(300);
    expect(performance.now() - started).toBeLessThan(5_000);
    expect(await running).toMatchObject({ status: "cancelled", error: { code: "gateway_stopping" } });
    expect(readFrames(frames_file)).toContainEqual(
      expect.objectContaining({ type: "cancel", reason: "host_shutdown" }),
    );
    expect(processesWith(test_runner.mark)).toEqual([]);
    expect(await test_runner.run(vai("echo"))).toMatchObject({
      error: { code: "gateway_stopping" },
      dispatched: false,
    });
  },
);

verifies("vai.timeouts", "uses the documented default timeouts unless others are set", async () => {
  expect(DEFAULT_TIMEOUTS).toMatchObject({
    hello_ms: 5_000,
    cancel_grace_ms: 2_000,
    shutdown_grace_ms: 5_000,
  });
  const impatient_runner = createTestRunner({ timeouts: { hello_ms: 150 } });
  expect(await impatient_runner.run(vai("never-says-hello"))).toMatchObject({
    error: { code: "handshake_failed", message: expect.stringContaining("within 150 ms") },
    dispatched: false,
  });
  const timeouts = { cancel_grace_ms: 100, shutdown_grace_ms: 100 };
  const test_runner = createTestRunner({ timeouts });
  const started = performance.now();
  expect(await test_runner.run(vai("hangs", { timeout_ms: 100 }))).toMatchObject({
    error: { code: "timeout" },
  });
  await test_runner.run(vai("ignores-everything", { timeout_ms: 100 }));
  test_runner.runner.retire("bind_1");
  await until(() => processesWith(test_runner.mark).length === 0);
  const spent = performance.now() - started;
  // The default grace periods of the two processes would take another 9 s.
  expect(spent).toBeLessThan(9_000);
});

test("leaves no process behind when the runner is closed during a launch", async () => {
  let closed: Promise<void> | undefined;
  const test_runner: TestRunner = createTestRunner({
    interpreters: {
      node: process.execPath,
      // The runner reads the path between the decision to launch and the launch itself.
      get path() {
        closed ??= test_runner.runner.close(10_000);
        return PLUGIN_PATH;
      },
    },
  });
  const outcome = await test_runner.run({ entrypoint: ["sleep", "600"] });
  expect(outcome).toMatchObject({
    status: "cancelled",
    error: { code: "gateway_stopping" },
    dispatched: false,
  });
  const started = performance.now();
  await closed;
  expect(performance.now() - started).toBeLessThan(5_000);
  expect(processesWith(test_runner.mark)).toEqual([]);
});

test("includes launch and handshake in the deadline, and dispatches nothing if they take too long", async () => {
  const outcome = await createTestRunner().run(vai("never-says-hello", { timeout_ms: 100 }));
  expect(outcome).toMatchObject({ status: "failed", error: { code: "timeout" }, dispatched: false });
});

verifies(
  "vai.context",
  "provides a private scratch_dir only with a scratch grant and removes it after the call",
  async () => {
    const test_runner = createTestRunner();
    const without_scratch = await test_runner.run(vai("uses-scratch"));
    expect(without_scratch.result).toEqual({ scratch_dir: null, tmp: "/nonexistent", home: "/nonexistent" });
    let mode = 0;
    const with_scratch = test_runner.run(
      vai("uses-scratch", { invocation_id: "inv_ws", grant: { filesystem: "scratch" } }),
    );
    const dir = join(test_runner.scratch_root, "inv_ws");
    await until(() => existsSync(dir));
    mode = statSync(dir).mode & 0o777;
    const { scratch_dir, tmp } = (await with_scratch).result as { scratch_dir: string; tmp: string };
    expect(mode).toBe(0o700);
    expect(scratch_dir).toBe(dir);
    expect(tmp).toMatch(/proc_\d+$/);
    expect(existsSync(dir)).toBe(false);
    test_runner.runner.retire("bind_1");
    await until(() => readdirSync(test_runner.scratch_root).length === 0);
  },
);

verifies("vai.context", "passes the context to the plugin unchanged, including secrets", async () => {
  const test_runner = createTestRunner();
  const { result } = await test_runner.run(
    vai("context", {
      invocation_id: "inv_ctx",
      body: { tool_execution_id: "toolx_9", input: {} },
      context: { session_id: "sess_1", secrets: { jira: "not-shown-anywhere" }, config: { url: "u" } },
    }),
  );
  expect(result).toMatchObject({
    export_id: "echo",
    tool_execution_id: "toolx_9",
    context: {
      invocation_id: "inv_ctx",
      session_id: "sess_1",
      config: { url: "u" },
      secrets: { jira: "[redacted]" },
    },
  });
  expect(Object.keys((result as { context: object }).context)).not.toContain("chain_id");
});

test("redacts secrets from results, events, errors and stderr in several encodings", async () => {
  const test_runner = createTestRunner();
  const token = 's3cr3t/+"quoted" value';
  const context = { secrets: { token } };
  const outcome = await test_runner.run(vai("repeats-secrets", { context, input: {} }));
  const failed = await test_runner.run(vai("repeats-secrets", { context, input: { fail: true } }));
  expect(failed.error?.message).toBe("bad [redacted]");
  const recorded = JSON.stringify([outcome, failed, test_runner.events]);
  const bare = Buffer.from(token).toString("base64").slice(0, 20);
  for (const encoding of [
    "s3cr3t",
    bare,
    encodeURIComponent(token),
    Buffer.from(token).toString("base64url"),
  ]) {
    expect(recorded).not.toContain(encoding);
  }
  expect(outcome.stderr_tail).toBe('log [redacted] and [redacted] and "[redacted]"\n');
});

test("runs the process in the package folder with the gateway's Node and a minimal environment", async () => {
  const { result } = await createTestRunner().run(vai("environment"));
  const { env, cwd, execPath } = result as { env: object; cwd: string; execPath: string };
  expect(Object.keys(env).sort()).toEqual(["BACKPLANE_PROCESS_ID", "HOME", "LANG", "MARK", "PATH", "TMPDIR"]);
  expect([cwd, execPath]).toEqual([FIXTURES, process.execPath]);
});

test("refuses class isolated without a sandbox, class inline, and an unknown protocol", async () => {
  const test_runner = createTestRunner();
  expect(await test_runner.run(vai("echo", { class: "isolated" }))).toMatchObject({
    error: { code: "sandbox.unavailable" },
    dispatched: false,
  });
  expect((await test_runner.run(vai("echo", { class: "inline" }))).error?.code).toBe("class.unsupported");
  const unknown = await test_runner.run(vai("echo", { protocol: "acme.rpc" as never }));
  expect(unknown.error).toMatchObject({
    code: "launch_failed",
    message: expect.stringContaining("acme.rpc"),
  });
  expect(test_runner.runner.health().sandbox.available).toBe(false);
});
