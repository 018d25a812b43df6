/**
 * Runs a program of an installation in the sandbox and waits for its exit. The program has scratch and one writable
 * folder of the host, but neither network nor secrets.
 */
import { chmod, readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, type Grant } from "@backplane/contract";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import { StderrRing } from "../processes/stderr-ring.ts";
import { describeStderr } from "../programs/describe-stderr.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import type { ConfinedProcess, ConfineRequest } from "../sandbox/launch-confined.ts";
import type { Deadlines } from "../time/deadlines.ts";

export interface ConfinedRunDeps {
  confinement: Confinement;
  deadlines: Deadlines;
  scratch: ScratchFolders;
}

interface ConfinedRun extends Pick<ConfineRequest, "env" | "binds"> {
  file: string;
  args: readonly string[];
  /** The home of the program, and the only folder of the host that it can write to. */
  folder: string;
  signal: AbortSignal;
  timeout_ms?: number | undefined;
  /** The subject of the error message, such as "The build of x". */
  subject: string;
  fix: string;
}

const DEFAULT_TIMEOUT_MS = 600_000;
const OUTPUT_BYTES = 64 * 1024;

const SCRATCH_ONLY_GRANT: Grant = {
  class: "isolated",
  network: "none",
  allowed_domains: [],
  filesystem: "scratch",
  mounts: [],
  gateway_api_scopes: [],
  secret_slots: [],
  capabilities: [],
  tools: null,
};

/** Throws `plugin.install_failed` with an excerpt of its output, `sandbox.unavailable`, or `request.cancelled`. */
export async function runConfined(
  { confinement, deadlines, scratch }: ConfinedRunDeps,
  run: ConfinedRun,
): Promise<void> {
  await confinement.opening;
  const { sandbox, refusal } = confinement.boundaryFor({ class: "isolated", grant: {} });
  if (sandbox === null) throw refusal!;
  const empty_folder = await scratch.makeForProcess();
  try {
    // The sandbox's user must be able to enter it.
    await chmod(empty_folder, 0o755);
    const confined = await sandbox.launch({
      grant: SCRATCH_ONLY_GRANT,
      // Without a limit on CPU time, because a compiler may need a lot of it.
      lifetime: "pooled",
      folder: await realpath(empty_folder),
      program: { kind: "system", file: run.file, args: [...run.args] },
      env: run.env,
      ...(run.binds === undefined ? {} : { binds: run.binds }),
      state: run.folder,
    });
    try {
      await waitForExit(confined, deadlines, run);
    } finally {
      await unlockFolders(run.folder);
    }
  } finally {
    await scratch.remove(empty_folder);
  }
}

/**
 * A gateway that runs as an ordinary user owns the files that the program left behind, but could not remove a folder
 * without the permission to enter it. No process is left that could replace a folder with a link.
 */
async function unlockFolders(folder: string): Promise<void> {
  await chmod(folder, 0o700).catch(() => {});
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => []))
    if (entry.isDirectory()) await unlockFolders(join(folder, entry.name));
}

async function waitForExit(
  confined: ConfinedProcess,
  deadlines: Deadlines,
  { signal: stop, timeout_ms = DEFAULT_TIMEOUT_MS, subject, fix }: ConfinedRun,
): Promise<void> {
  const output = new StderrRing(OUTPUT_BYTES);
  const { child } = confined;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => output.append(chunk));
  }
  child.stdin.on("error", () => {});
  child.stdin.end();
  let timed_out = false;
  const deadline = deadlines.set(timeout_ms, () => {
    timed_out = true;
    confined.kill("timeout");
  });
  const kill = () => confined.kill();
  stop.addEventListener("abort", kill);
  if (stop.aborted) kill();
  const { code, signal } = await confined.exitCause;
  deadlines.clear(deadline);
  stop.removeEventListener("abort", kill);
  if (stop.aborted) throw new BackplaneError("request.cancelled");
  if (code === 0) return;
  const outcome = timed_out
    ? `it did not exit within ${timeout_ms} ms`
    : signal === null
      ? `exit code ${code ?? "unknown"}`
      : signal;
  const text = describeStderr(output.since(0, OUTPUT_BYTES).toString("utf8")) ?? "There was no output.";
  throw new BackplaneError(
    "plugin.install_failed",
    `${subject} failed in the sandbox (${outcome}). ${text}`,
    {
      fix,
    },
  );
}
