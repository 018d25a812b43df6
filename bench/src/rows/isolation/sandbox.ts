/**
 * The cost of the sandbox: a cold call compared with the same plugin as a plain process, a call with a prewarmed
 * process, and the number of small programs that can be started and ended per second. The two sides alternate.
 */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRunner } from "@backplane/runner";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { openSandbox } from "../../../../packages/runner/src/sandbox/open-sandbox.ts";
import { createBenchContext } from "../../fixtures/bench-context.ts";
import { importEchoPackage } from "../../fixtures/echo-package.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median, percentile } from "../../measuring/statistics.ts";

const CALLS = 40;
const STARTS = 120;
const CONCURRENCY = 4;
const ROUNDS = 5;

const log = createTestLogger();

type Echo = Awaited<ReturnType<typeof createEcho>>;

export async function measureSandboxCold(): Promise<Row[]> {
  return await withEcho(async (echo) => {
    const confined = echo.createRunner({ sandbox: true, prewarmed: 0 });
    const plain = echo.createRunner({ sandbox: false, prewarmed: 0 });
    const times = { confined: [] as number[], plain: [] as number[] };
    try {
      for (let i = -3; i < CALLS; i++) {
        const [ours, theirs] = [
          await confined.call("isolated", `c${i}`),
          await plain.call("worker", `p${i}`),
        ];
        if (i < 0) continue;
        times.confined.push(ours);
        times.plain.push(theirs);
      }
    } finally {
      await Promise.all([confined.close(), plain.close()]);
    }
    const [ours, limit] = [percentile(times.confined, 0.5), percentile(times.plain, 0.5)];
    return [
      createRow("sandbox.cold", "ms p50, spawn + hello + first call", "lower", ours, limit),
      createRow("sandbox.cold.extra-ms", "ms over the plain process", "lower", ours - limit, null),
    ];
  });
}

export async function measureSandboxPrewarmed(): Promise<Row[]> {
  return await withEcho(async (echo) => {
    const runner = echo.createRunner({ sandbox: true, prewarmed: 1 });
    const times: number[] = [];
    try {
      for (let i = -3; i < CALLS; i++) {
        const elapsed = await runner.call("isolated", "one");
        if (i >= 0) times.push(elapsed);
        await runner.waitUntilReady();
      }
    } finally {
      await runner.close();
    }
    return [
      createRow(
        "sandbox.prewarmed",
        "ms p50, a process ready for its one call",
        "lower",
        percentile(times, 0.5),
        null,
      ),
    ];
  });
}

/** Starts `true` and waits for its exit, in the sandbox and as a plain process. */
export async function measureSandboxRate(): Promise<Row[]> {
  const home = mkdtempSync(join(tmpdir(), "backplane-bench-"));
  const sandbox = await openSandbox({ cache_dir: home, node: process.execPath, path: ["/usr/bin"], log });
  if (!sandbox.status.available) throw new Error(sandbox.status.reason);
  const { grant } = createBenchContext("inv_bench");
  const program = { kind: "system" as const, file: "/bin/true", args: [] };
  const confined = async () => {
    const launched = await sandbox.launch({
      grant,
      lifetime: "call",
      folder: "/usr/share",
      program,
      env: {},
    });
    launched.child.stdout.resume();
    launched.child.stderr.resume();
    const { code } = await launched.exitCause;
    if (code !== 0) throw new Error(`true exited with ${code}`);
  };
  const rates = { confined: [] as number[], plain: [] as number[] };
  try {
    for (let round = -1; round < ROUNDS; round++) {
      const [ours, theirs] = [await measureRate(confined), await measureRate(runPlainTrue)];
      if (round < 0) continue;
      rates.confined.push(ours);
      rates.plain.push(theirs);
    }
  } finally {
    await sandbox.close();
    rmSync(home, { recursive: true, force: true });
  }
  return [
    createRow("sandbox.rate", "starts/s of true", "higher", median(rates.confined), median(rates.plain)),
  ];
}

/** Like a plugin's process: three pipes, its own process group. */
function runPlainTrue(): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("/bin/true", { env: {}, detached: true, stdio: "pipe" });
    child.stdout.resume();
    child.stderr.resume();
    child.once("error", reject);
    child.once("close", () => resolve());
  });
}

async function measureRate(start: () => Promise<void>): Promise<number> {
  let remaining = STARTS;
  const from = performance.now();
  const startRepeatedly = async () => {
    while (remaining-- > 0) await start();
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, startRepeatedly));
  return (STARTS / (performance.now() - from)) * 1000;
}

async function withEcho(measure: (echo: Echo) => Promise<Row[]>): Promise<Row[]> {
  const echo = await createEcho();
  try {
    return await measure(echo);
  } finally {
    await echo.close();
  }
}

async function createEcho() {
  const home = mkdtempSync(join(tmpdir(), "backplane-bench-"));
  const { files, pack, close } = await importEchoPackage(home);
  let runners = 0;
  let calls = 0;
  return {
    createRunner(options: { sandbox: boolean; prewarmed: number }) {
      const scratch_root = join(home, `scratch-${runners++}`);
      mkdirSync(scratch_root);
      const runner = createRunner({
        files,
        clock,
        scratch_root,
        host: { name: "bench", version: "1.0.0" },
        limits: { prewarmed: options.prewarmed, prewarmed_per_key: 1 },
        ...(options.sandbox ? { sandbox: { cache_dir: join(home, "sandbox") } } : {}),
        log,
      });
      return {
        /** Runs one call and returns its duration in milliseconds. */
        async call(isolation: "isolated" | "worker", pool_key: string): Promise<number> {
          const invocation_id = `inv_${calls++}`;
          const context = createBenchContext(invocation_id);
          const from = performance.now();
          const { status, error } = await runner.run(
            {
              invocation_id,
              attempt: 1,
              package: pack,
              export_id: "echo",
              op: "tool.invoke",
              body: { tool_execution_id: invocation_id, input: { text: "hello" } },
              context,
              grant: { ...context.grant, class: isolation },
              class: isolation,
              timeout_ms: 30_000,
              pool_key,
              binding_id: "bind_bench",
            },
            { event: () => undefined },
          );
          const elapsed = performance.now() - from;
          if (status !== "succeeded") throw new Error(`echo ended as ${status}: ${error?.message}`);
          // Retires the pooled process, so that the next call is a cold start.
          if (isolation === "worker") runner.retire("bind_bench");
          return elapsed;
        },
        async waitUntilReady(): Promise<void> {
          while (runner.health().prewarmed < 1) await pause(5);
          // Waits until the previous process has exited as well.
          while (runner.health().processes > 1) await pause(5);
        },
        close: () => runner.close(1_000),
      };
    },
    async close() {
      await close();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
