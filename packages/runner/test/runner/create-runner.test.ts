import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { eventually, isAlive } from "../../../../test/support/gateway/processes.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createConfinement } from "../../src/sandbox/confinement.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { confinedProcesses } from "../support/process-tree.ts";
import { requestOf, side, vai } from "../support/request.ts";
import { type TestRunner, until } from "../support/runner.ts";
import { sandboxOptions } from "../support/sandbox.ts";
import { SkippingClock } from "../support/skipping-clock.ts";

const EXAMPLES = fileURLToPath(new URL("../../../../examples", import.meta.url));
const isolated = { class: "isolated" } as const;
const DAY_MS = 86_400_000;

verifies("sandbox.env", "sets exactly the documented environment and no variable of the host", async () => {
  process.env.HOST_CANARY = "canary-of-the-host";
  const test_runner = createConfinedTestRunner();
  const context = { secrets: { token: "canary-of-the-call" } };
  const proxy = "http://127.0.0.1:3128";
  const direct = "127.0.0.1,localhost,::1";
  const upper = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: direct };
  const lower = Object.fromEntries(Object.entries(upper).map(([name, value]) => [name.toLowerCase(), value]));
  const proxied = { ...upper, ...lower, NODE_USE_ENV_PROXY: "1" };
  for (const [confined, network] of [
    [isolated, "none"],
    [isolated, "egress"],
    [{}, "none"],
    [{}, "egress"],
  ] as const) {
    const env = { OWN: "yes", PATH: "/plugin", LD_LIBRARY_PATH: "/x", http_proxy: "http://evil.test" };
    const { http_proxy: _evil, ...kept } = env;
    const change = { ...confined, context, grant: { network }, env: network === "none" ? kept : env };
    const { result } = await test_runner.run(vai("environment", change));
    expect(result).toEqual({
      env: {
        ...(network === "none" ? {} : proxied),
        OWN: "yes",
        LD_LIBRARY_PATH: "/x",
        MARK: test_runner.mark,
        PATH: "/usr/local/bin:/usr/bin:/bin",
        HOME: "/nonexistent",
        TMPDIR: "/nonexistent",
        LANG: "C.UTF-8",
      },
      cwd: "/plugin",
      execPath: "/sandbox/node",
    });
  }
  // On the host neither the command line nor the environment of any process contains a secret.
  for (const pid of readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && name !== String(process.pid),
  )) {
    for (const file of ["cmdline", "environ"]) {
      let text = "";
      try {
        text = readFileSync(`/proc/${pid}/${file}`, "latin1");
      } catch {
        continue;
      }
      expect(text).not.toContain("canary-of-the-call");
    }
  }
  delete process.env.HOST_CANARY;
});

test("uses an isolated process once and keeps a worker", async () => {
  const test_runner = createConfinedTestRunner();
  expect(await test_runner.run(vai("echo", isolated))).toMatchObject({ status: "succeeded", violations: 0 });
  await until(() => test_runner.runner.health().processes === 0);
  expect(await test_runner.run(vai("echo"))).toMatchObject({ status: "succeeded" });
  expect(await test_runner.run(vai("echo"))).toMatchObject({ status: "succeeded" });
  expect(test_runner.runner.health().processes).toBe(1);
  expect(await test_runner.run(side("ok", isolated))).toMatchObject({ status: "succeeded", violations: 0 });
  expect(test_runner.runner.health().sandbox).toMatchObject({ available: true });
});

test("delays a call until the self-test has finished, and can cancel it", async () => {
  const test_runner = createConfinedTestRunner();
  const waiting_call = test_runner.run(vai("echo", isolated));
  const cancelled_call = test_runner.run(vai("echo", { ...isolated, invocation_id: "inv_early" }));
  expect(test_runner.runner.health().sandbox).toMatchObject({
    available: true,
    reason: expect.stringContaining("being tested"),
  });
  expect(test_runner.runner.cancel("inv_early", "user")).toBe(true);
  expect(await waiting_call).toMatchObject({ status: "succeeded" });
  expect(await cancelled_call).toMatchObject({
    status: "cancelled",
    error: { code: "cancelled" },
    dispatched: false,
  });
});

test("gives each call its own private scratch folder and removes it afterwards", async () => {
  const test_runner = createConfinedTestRunner();
  const grant = { filesystem: "scratch" as const };
  for (const confined of [isolated, {}]) {
    for (const invocation_id of ["inv_a", "inv_b"]) {
      const { result } = await test_runner.run(vai("uses-scratch", { ...confined, invocation_id, grant }));
      expect(result).toEqual({
        scratch_dir: `/sandbox/scratch/${invocation_id}`,
        tmp: "/sandbox/scratch",
        home: "/sandbox/scratch",
      });
    }
  }
  // The same id again on the same process: the first folder was removed.
  const again = await test_runner.run(vai("uses-scratch", { invocation_id: "inv_a", grant }));
  expect(again.status).toBe("succeeded");
});

test("runs the examples as workers in the sandbox: TypeScript, Python, shell", async () => {
  const examples = [
    { name: "hello-tool", id: "acme/hello", entrypoint: ["node", "./bin/plugin.mjs"] },
    { name: "jira-search", id: "acme/jira", entrypoint: ["python3", "./bin/plugin.py"] },
    { name: "notifier", id: "acme/notifier", entrypoint: ["sh", "./bin/plugin.sh"] },
  ];
  for (const { name, id, entrypoint } of examples) {
    const folder = join(EXAMPLES, name);
    const version = /^version = "(.*)"$/m.exec(readFileSync(join(folder, "vai-plugin.toml"), "utf8"))![1]!;
    const test_runner = createConfinedTestRunner({ folder });
    const outcome = await test_runner.run({
      entrypoint,
      package: makePackage(id, version, entrypoint),
      export_id: "none",
    });
    // The examples answered: no launch, handshake or crash failure, whatever they do with an unknown export.
    expect(["succeeded", "failed", "retryable_failure"]).toContain(outcome.status);
    expect([null, "plugin_failed", "plugin_protocol_error", "plugin_retryable"]).toContain(
      outcome.error?.code ?? null,
    );
    expect(outcome.dispatched).toBe(true);
  }
});

function makePackage(package_id: string, version: string, entrypoint: string[]) {
  return {
    package_id,
    version,
    runtime: { ...requestOf({}).package.runtime, entrypoint },
  };
}

test("refuses an isolated call and reports the fix if there is no sandbox, and never falls back", async () => {
  const confinement = createConfinement(sandboxOptions({ init: "/nonexistent" }));
  await confinement.opening;
  const { sandbox, refusal } = confinement.boundaryFor(requestOf(isolated));
  expect([sandbox, refusal?.code, refusal?.fix]).toEqual([
    null,
    "sandbox.unavailable",
    expect.stringMatching(/^Install Backplane again/),
  ]);
  expect(confinement.boundaryFor(requestOf({}))).toEqual({ sandbox: null, refusal });
  expect(confinement.status()).toMatchObject({
    available: false,
    reason: expect.stringContaining("sandbox-init cannot be used"),
  });
  await confinement.close();
});

test("explains a program that cannot start with the same message as without a sandbox", async () => {
  const test_runner = createConfinedTestRunner();
  const outcome = await test_runner.run({ ...isolated, entrypoint: ["./frames.mjs"] });
  expect(outcome).toMatchObject({ status: "failed", error: { code: "launch_failed" } });
  expect(outcome.error?.message).toMatch(/not executable|interpreter line/);
  const early = await test_runner.run(vai("kills-itself", isolated));
  expect(early.error?.message).toContain("was killed by SIGSEGV before it answered");
});

verifies(
  "sandbox.kill",
  "kills the whole process tree on cancel, deadline, unload and shutdown of the runner",
  async () => {
    const timeouts = { cancel_grace_ms: 100, shutdown_grace_ms: 100 };
    const clock = new SkippingClock();
    const ends: Record<string, (test_runner: TestRunner) => Promise<unknown>> = {
      cancel: async (test_runner) => {
        const running = test_runner.run(
          vai("ignores-everything", { ...isolated, invocation_id: "inv_unresponsive" }),
        );
        await until(() => confinedProcesses().length >= 3);
        const tree = confinedProcesses();
        expect(test_runner.runner.cancel("inv_unresponsive", "user")).toBe(true);
        expect(await running).toMatchObject({ status: "cancelled" });
        return tree;
      },
      deadline: async (test_runner) => {
        const running = test_runner.run(vai("ignores-everything", { ...isolated, timeout_ms: DAY_MS }));
        await until(() => confinedProcesses().length >= 3);
        const tree = confinedProcesses();
        clock.skip(DAY_MS);
        expect(await running).toMatchObject({ status: "failed", error: { code: "timeout" } });
        return tree;
      },
      unload: async (test_runner) => {
        expect(await test_runner.run(vai("forks"))).toMatchObject({ status: "succeeded" });
        const tree = confinedProcesses();
        test_runner.runner.retire("bind_1");
        return tree;
      },
      shutdown: async (test_runner) => {
        expect(await test_runner.run(vai("forks"))).toMatchObject({ status: "succeeded" });
        const tree = confinedProcesses();
        await test_runner.runner.close(200);
        return tree;
      },
    };
    for (const [how, end] of Object.entries(ends)) {
      const test_runner = createConfinedTestRunner({ timeouts, clock });
      await test_runner.run(side("ok"));
      const tree = (await end(test_runner)) as number[];
      expect([how, tree.length >= 3]).toEqual([how, true]);
      const took = await eventually(() => !tree.some(isAlive), 5_000, `every process is gone after ${how}`);
      expect(took).toBeLessThan(5_000);
      await test_runner.runner.close(200);
    }
  },
);
