/**
 * Starts one process of a package in the sandbox, as a call would, and gives the caller its pipes instead of a session.
 * The conformance suite uses this, because the suite also sends frames that no session would send. The process has no
 * egress beyond its grant and does not outlive the runner.
 */
import type { Readable, Writable } from "node:stream";
import type { Grant, Runtime } from "@backplane/contract";
import type { Egress } from "../egress/create-egress.ts";
import { killLaunched, launch } from "../processes/launch.ts";
import { explainEarlyExit, type LaunchEnvironment } from "../programs/diagnose-launch.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import { INSIDE } from "../sandbox/plan.ts";
import type { ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";
import type { Deadlines } from "../time/deadlines.ts";
import { setOwnTimeDeadline } from "../time/own-time-deadline.ts";

export interface ProgramDeps {
  confinement: Confinement;
  deadlines: Deadlines;
  egress: Egress;
  environment: LaunchEnvironment;
  trees: ProcessTrees;
  watchdog: Watchdog;
}

export interface ProgramRequest {
  package_id: string;
  runtime: Runtime;
  /** The verified package folder. */
  folder: string;
  grant: Grant;
}

export interface ProgramExit {
  code: number | null;
  signal: string | null;
  /** One sentence, with the limit that was exceeded if there was one. */
  message: string;
}

export interface StartedProgram {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the sandbox with all its processes has ended. */
  readonly exit: Promise<ProgramExit>;
  /** Creates the scratch folder of a call and returns its path in the sandbox; null if there is none. */
  makeScratch(name: string): Promise<string | null>;
  /** Calls `run` after `ms` of the process's own time, unless the returned function is called first. */
  after(ms: number, run: () => void): () => void;
  /** Explains why a process exited before its handshake. */
  explainExit(exit: ProgramExit, stderr: string): Promise<string>;
  kill(): void;
}

/** Throws `launch_failed` with a diagnosis, or `sandbox.unavailable`. */
export async function startProgram(deps: ProgramDeps, request: ProgramRequest): Promise<StartedProgram> {
  const { confinement, deadlines, egress, environment, trees, watchdog } = deps;
  const { folder, grant, package_id, runtime } = request;
  await confinement.opening;
  const { sandbox, refusal } = confinement.boundaryFor({ class: "isolated", grant: {} });
  if (sandbox === null) throw refusal!;
  const openEgress = () => egress.open({ grant });
  const confine = { sandbox, grant, lifetime: "pooled", package_id, binds: [], openEgress } as const;
  const launched = await launch({ runtime, folder, home: null, confine }, environment, watchdog, trees);
  const { child, entry, pid } = launched;
  const confined = launched.confined!;
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on("error", () => {});
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exit: confined.exitCause.then(({ code, signal, message }) => {
      watchdog.forget(pid);
      return { code, signal, message };
    }),
    makeScratch: async (name) =>
      grant.filesystem === "scratch" && (await confined.makeScratch(name))
        ? `${INSIDE.scratch}/${name}`
        : null,
    after: (ms, run) => setOwnTimeDeadline(deadlines, pid, ms, run),
    explainExit: ({ code, signal }, stderr) =>
      explainEarlyExit(entry, { exit: { code, signal }, stderr, stray_output: undefined }, environment),
    kill: () => killLaunched(launched),
  };
}
