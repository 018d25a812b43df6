/** Without a sandbox, no descendant outlives a plugin process, not even a daemon. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { describe, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type ProcessRow, parseStat, readProcess, withDescendants } from "../../src/procfs/process-table.ts";
import { ProcessTree, ProcessTrees } from "../../src/supervision/process-trees.ts";
import { openTrackingCgroups } from "../../src/supervision/tracking-cgroup.ts";
import { FIXTURES, type RequestChange } from "../support/request.ts";
import { createTestRunner, isAlive, type TestRunner, until } from "../support/runner.ts";
import { SkippingClock } from "../support/skipping-clock.ts";

const WAIT_MS = 30_000;

interface Daemon {
  input: { daemon: { file: string; clear: boolean }; messages: [] };
  pid(): number;
  waitUntilStarted(): Promise<void>;
  waitUntilGone(): Promise<void>;
}

function createDaemon(clear = false): Daemon {
  const folder = mkdtempSync(join(tmpdir(), "backplane-daemon-"));
  const file = join(folder, "pid");
  onTestFinished(() => {
    const pid = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
    if (pid > 1 && isAlive(pid)) process.kill(pid, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  const pid = () => Number(readFileSync(file, "utf8"));
  return {
    input: { daemon: { file, clear }, messages: [] },
    pid,
    waitUntilStarted: () => until(() => existsSync(file) && isAlive(pid()), WAIT_MS),
    waitUntilGone: () => until(() => !isAlive(pid()), WAIT_MS),
  };
}

const plainCall = (dialect: "vai" | "side"): RequestChange => ({
  protocol: dialect === "vai" ? "vai.rpc.v1" : "rterm.plugin.v1",
  entrypoint: ["node", "./replies.mjs", dialect],
  timeout_ms: 600_000,
});

for (const dialect of ["vai", "side"] as const) {
  describe(plainCall(dialect).protocol!, () => {
    verifies(
      "launch.tree",
      "kills a daemon that forked twice into its own session when the call is cancelled",
      async () => {
        const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 50 } });
        const daemon = createDaemon();
        const invocation_id = `inv_cancel_${dialect}`;
        const run = test_runner.run({ ...plainCall(dialect), invocation_id, input: daemon.input });
        await daemon.waitUntilStarted();
        test_runner.runner.cancel(invocation_id, "user");
        expect(await run).toMatchObject({ status: "cancelled" });
        await daemon.waitUntilGone();
      },
      WAIT_MS,
    );

    verifies(
      "launch.tree",
      "kills a daemon that forked twice into its own session at the deadline",
      async () => {
        const clock = new SkippingClock();
        const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 50 }, clock });
        const daemon = createDaemon();
        const call = plainCall(dialect);
        const run = test_runner.run({ ...call, input: daemon.input });
        await daemon.waitUntilStarted();
        clock.skip(call.timeout_ms!);
        expect(await run).toMatchObject({ error: { code: "timeout" } });
        await daemon.waitUntilGone();
      },
      WAIT_MS,
    );
  });
}

const cgroups = openTrackingCgroups(`backplane-test-${process.pid}-${Math.random().toString(36).slice(2)}`);
await cgroups?.close();

describe.runIf(cgroups !== null)("with cgroups", () => {
  verifies(
    "launch.tree",
    "kills a descendant that cleared its environment",
    async () => {
      const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 50 } });
      const daemon = createDaemon(true);
      const run = test_runner.run({ ...plainCall("vai"), invocation_id: "inv_clear", input: daemon.input });
      await daemon.waitUntilStarted();
      test_runner.runner.cancel("inv_clear", "user");
      expect(await run).toMatchObject({ status: "cancelled" });
      await daemon.waitUntilGone();
    },
    WAIT_MS,
  );
});

test(
  "kills the daemons of a process that exits on its own",
  async () => {
    const test_runner = createTestRunner();
    const daemon = createDaemon();
    const answer = { type: "response", request_id: "$id", status: "ok", output: 1 };
    const outcome = await test_runner.run({
      ...plainCall("side"),
      input: { ...daemon.input, messages: [answer] },
    });
    expect(outcome).toMatchObject({ status: "succeeded", violations: 0 });
    await until(() => existsSync(daemon.input.daemon.file), WAIT_MS);
    await daemon.waitUntilGone();
  },
  WAIT_MS,
);

test("kills the daemons of an idle worker when the runner shuts down", async () => {
  const test_runner: TestRunner = createTestRunner();
  const daemon = createDaemon();
  const succeeded = { type: "response", id: "$id", ok: true, body: { status: "succeeded", result: null } };
  const outcome = await test_runner.run({
    ...plainCall("vai"),
    input: { ...daemon.input, messages: [succeeded] },
  });
  expect(outcome.status).toBe("succeeded");
  await daemon.waitUntilStarted();
  await test_runner.runner.close(200);
  expect(isAlive(daemon.pid())).toBe(false);
});

verifies(
  "launch.tree",
  "kills the daemons of plugins after the gateway was killed",
  async () => {
    const daemon = createDaemon();
    const host = fileURLToPath(new URL("../fixtures/doomed-host.ts", import.meta.url));
    const gateway = spawn(
      process.execPath,
      [
        "--conditions=backplane-source",
        host,
        FIXTURES,
        `doomed-tree-${process.pid}`,
        daemon.input.daemon.file,
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    await once(gateway.stdout, "data");
    await daemon.waitUntilStarted();
    gateway.kill("SIGKILL");
    await daemon.waitUntilGone();
    expect(isAlive(daemon.pid())).toBe(false);
  },
  WAIT_MS,
);

test("finds descendants by parent, session and group", () => {
  const row = (pid: number, ppid: number, pgrp: number, session: number): ProcessRow => ({
    pid,
    ppid,
    pgrp,
    session,
    state: "S",
    cpu_ticks: 0,
    reaped_ticks: 0,
    start_ticks: 0,
  });
  const rows = [
    row(1, 0, 1, 1),
    row(10, 1, 10, 10),
    // A child that lost its parent but stayed in the session.
    row(11, 1, 12, 10),
    // Its child in a separate session, and a process of that session that lost its parent.
    row(13, 11, 13, 13),
    row(14, 1, 13, 13),
    // An unrelated process.
    row(20, 1, 20, 20),
  ];
  expect([...withDescendants(rows, [10])].sort((a, b) => a - b)).toEqual([10, 11, 13, 14]);
  expect([...withDescendants(rows, [])]).toEqual([]);
});

test("reads a process whose name contains spaces and parentheses", () => {
  const rest = "1 2 3 0 -1 4194560 1 0 0 0 7 5 2 1 20 0 1 0 99 0 0";
  expect(parseStat(`42 (a ) b (c) S ${rest}`)).toEqual({
    pid: 42,
    state: "S",
    ppid: 1,
    pgrp: 2,
    session: 3,
    cpu_ticks: 12,
    reaped_ticks: 3,
    start_ticks: 99,
  });
  expect(parseStat("")).toBeNull();
  expect(parseStat("42 (gone)")).toBeNull();
});

verifies(
  "launch.tree",
  "finds a daemon by its mark without cgroups, even after its process exited on its own",
  async () => {
    for (const killed of [true, false]) {
      const tree = new ProcessTree(null, createTestLogger());
      const daemon = createDaemon();
      const { file } = daemon.input.daemon;
      const script = `python3 ${FIXTURES}/daemon.py ${file} keep; ${killed ? "sleep 600" : "exit 0"}`;
      const env = { PATH: "/usr/local/bin:/usr/bin:/bin", ...tree.env };
      const first = spawn("/bin/sh", ["-c", script], { detached: true, stdio: "ignore", env });
      const ended = once(first, "exit");
      tree.track(first.pid!);
      await daemon.waitUntilStarted();
      if (killed) tree.kill();
      await ended;
      await tree.end();
      expect(isAlive(daemon.pid())).toBe(false);
    }
  },
  WAIT_MS * 2,
);

test("does not kill processes of another tree", async () => {
  const trees = new ProcessTrees(createTestLogger());
  const [killed_tree, other] = [trees.begin(), trees.begin()];
  const startSleeper = (env: Record<string, string>) =>
    spawn("/bin/sleep", ["600"], { detached: true, stdio: "ignore", env });
  const first = startSleeper(killed_tree.env);
  const second = startSleeper(other.env);
  killed_tree.track(first.pid!);
  other.track(second.pid!);
  killed_tree.kill();
  await once(first, "exit");
  await killed_tree.end();
  expect(isAlive(second.pid!)).toBe(true);
  other.kill();
  await once(second, "exit");
  await other.end();
  await trees.close();
});

test.runIf(cgroups !== null)(
  "does not put a process into the cgroup of an exited process with the same pid",
  async () => {
    const tracking = openTrackingCgroups(`backplane-test-${randomUUID()}`)!;
    const child = spawn("/bin/sleep", ["600"], { detached: true, stdio: "ignore" });
    const { start_ticks } = readProcess(child.pid!)!;
    try {
      await tracking.add("same", child.pid!, start_ticks);
      expect(tracking.listMembers("same")).toEqual([child.pid]);
      await tracking.add("other", child.pid!, start_ticks - 1);
      expect(tracking.listMembers("other")).toEqual([]);
      expect(isAlive(child.pid!)).toBe(true);
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
      for (const name of ["same", "other"]) await tracking.remove(name);
      await tracking.close();
    }
  },
);
