/** A real sandbox for tests. It is closed when the test ends. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { grantWith } from "@backplane/test-kit/grant-with";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { onTestFinished } from "vitest";
import { PLUGIN_PATH } from "../../src/index.ts";
import type { ExitCause } from "../../src/sandbox/exit-cause.ts";
import type { ConfinedProcess, ConfineRequest } from "../../src/sandbox/launch-confined.ts";
import { openSandbox, type Sandbox } from "../../src/sandbox/open-sandbox.ts";
import type { SandboxOptions } from "../../src/sandbox/sandbox-parts.ts";

/** Limits the wait for output that never ends. */
const UNREAD_MS = 5_000;

/** Holds private copies of our files. Each user has a separate folder. */
export const CACHE = join(tmpdir(), `backplane-sandbox-${process.getuid!()}`);

export function sandboxOptions(change: Partial<SandboxOptions> = {}): SandboxOptions {
  return { cache_dir: CACHE, node: process.execPath, path: PLUGIN_PATH, log: createTestLogger(), ...change };
}

export async function openTestSandbox(change: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  const sandbox = await openSandbox(sandboxOptions(change));
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** An empty package that every user can read, like those of the content store. */
export async function createPackageFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "backplane-package-"));
  await chmod(folder, 0o755);
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export interface ProcessResult {
  out: string;
  err: string;
  exitCause: ExitCause;
}

export type RunChange = Partial<Omit<ConfineRequest, "grant">> & { grant?: Partial<ConfineRequest["grant"]> };

export function request(folder: string, change: RunChange = {}): ConfineRequest {
  const { grant, ...rest } = change;
  return {
    lifetime: "call",
    folder,
    program: { kind: "system", file: "/bin/sh", args: ["-c", "true"] },
    env: {},
    ...rest,
    grant: grantWith(grant),
  };
}

/** Waits for the exit and returns both outputs and the exit cause. */
export async function finish({ child, exitCause }: ConfinedProcess): Promise<ProcessResult> {
  const output = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    if (output.out.length < 1_000_000) output.out += chunk.toString("utf8");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    if (output.err.length < 1_000_000) output.err += chunk.toString("utf8");
  });
  // The exit may be reported before the last output is read.
  const unread = [child.stdout, child.stderr].filter((stream) => !stream.readableEnded && !stream.destroyed);
  const read = unread.map((stream) => once(stream, "end"));
  child.stdin.end();
  const cause = await exitCause;
  // A weakened sandbox may leave a process that holds the pipes.
  await Promise.race([Promise.all(read), setTimeout(UNREAD_MS)]);
  return { ...output, exitCause: cause };
}

export async function sh(sandbox: Sandbox, script: string, change: RunChange = {}): Promise<ProcessResult> {
  const folder = change.folder ?? (await createPackageFolder());
  const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", script] };
  return await finish(await sandbox.launch(request(folder, { program, ...change })));
}

export function createEmptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-sandbox-"));
  onTestFinished(() => {
    // A test may leave folders that their owner cannot enter.
    if (process.getuid!() !== 0) execFileSync("/bin/chmod", ["-R", "u+rwX", folder], { stdio: "ignore" });
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}
