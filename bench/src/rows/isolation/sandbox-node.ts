/**
 * `node -e 0` from request to exit: in our sandbox, as a plain process, and in the published sandbox runtime of
 * Anthropic, which needs ripgrep and socat on this machine. The three alternate.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxManager } from "@anthropic-ai/sandbox-runtime";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { openSandbox } from "../../../../packages/runner/src/sandbox/open-sandbox.ts";
import { createBenchContext } from "../../fixtures/bench-context.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { percentile } from "../../measuring/statistics.ts";

const RUNS = 25;
const WARM_UP = 3;
const REQUIRED_PROGRAMS = ["rg", "socat"];
const log = createTestLogger();

export async function measureSandboxNode(): Promise<Row[]> {
  const home = mkdtempSync(join(tmpdir(), "backplane-bench-"));
  const sandbox = await openSandbox({ cache_dir: home, node: process.execPath, path: ["/usr/bin"], log });
  if (!sandbox.status.available) throw new Error(sandbox.status.reason);
  const missing = REQUIRED_PROGRAMS.filter((name) => !existsSync(`/usr/bin/${name}`));
  if (missing.length > 0)
    console.error(
      "sandbox.node: the sandbox runtime is skipped, because ripgrep or socat is not installed (apt-get install ripgrep socat).",
    );
  const starts: Record<string, () => Promise<void>> = {
    ours: () => runConfined(sandbox),
    plain: () => runToEnd(process.execPath, ["-e", "0"]),
    ...(missing.length > 0 ? {} : { "sandbox-runtime-0.0": runInSandboxRuntime }),
  };
  const times = Object.fromEntries(Object.keys(starts).map((name) => [name, [] as number[]]));
  try {
    if (missing.length === 0) await SandboxManager.initialize(NO_ACCESS);
    for (let run = -WARM_UP; run < RUNS; run++) {
      for (const [name, start] of Object.entries(starts)) {
        const from = performance.now();
        await start();
        if (run >= 0) times[name]!.push(performance.now() - from);
      }
    }
  } finally {
    if (missing.length === 0) await SandboxManager.reset();
    await sandbox.close();
    rmSync(home, { recursive: true, force: true });
  }
  const p50 = (name: string) => percentile(times[name]!, 0.5);
  const peers = Object.keys(starts).slice(2);
  return [
    createRow(
      "sandbox.node",
      "ms p50, node -e 0 to its end",
      "lower",
      p50("ours"),
      p50("plain"),
      Object.fromEntries(peers.map((name) => [name, p50(name)])),
    ),
  ];
}

const NO_ACCESS = {
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: [], denyWrite: [] },
};

async function runConfined(sandbox: Awaited<ReturnType<typeof openSandbox>>): Promise<void> {
  const launched = await sandbox.launch({
    grant: createBenchContext("inv_bench").grant,
    lifetime: "call",
    folder: "/usr/share",
    program: { kind: "node", file: process.execPath, args: ["-e", "0"] },
    env: {},
  });
  launched.child.stdout.resume();
  launched.child.stderr.resume();
  const { code } = await launched.exitCause;
  if (code !== 0) throw new Error(`node exited with ${code}`);
}

async function runInSandboxRuntime(): Promise<void> {
  const command = await SandboxManager.wrapWithSandbox(`${process.execPath} -e 0`);
  await runToEnd("/bin/bash", ["-c", command]);
}

function runToEnd(program: string, args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: "pipe" });
    let stderr = "";
    child.stdout.resume();
    child.stderr.on("data", (chunk) => (stderr += chunk));
    child.once("error", reject);
    child.once("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} exited with ${code}: ${stderr.slice(0, 500)}`)),
    );
  });
}
