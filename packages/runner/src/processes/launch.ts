/**
 * Starts one plugin process: no shell, its own session and process group, an environment made from nothing,
 * pipes on all three standard streams; in a sandbox where its plan has one. The kill of its process tree, or of the
 * sandbox, is the only way to be rid of it and its children.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { realpath } from "node:fs/promises";
import { getSystemErrorName } from "node:util";
import { BackplaneError, type Grant, type Runtime } from "@backplane/contract";
import type { EgressSession } from "../egress/create-egress.ts";
import type { DialectLaunch } from "../ports/dialect.ts";
import { explainSpawn, explainUnfit, explainUnresolved, type Place } from "../programs/diagnose-launch.ts";
import { type Entrypoint, resolveEntrypoint } from "../programs/resolve-entrypoint.ts";
import { findProgram } from "../sandbox/find-program.ts";
import type { Confined, ConfineRequest } from "../sandbox/launch-confined.ts";
import type { Sandbox } from "../sandbox/open-sandbox.ts";
import type { ProcessTree, ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";

export interface LaunchPlan {
  runtime: Runtime;
  /** The verified package folder: the working directory, and nothing in it is ours to change. */
  folder: string;
  /** The only folder the plugin may call its own; null when its grant has none. */
  home: string | null;
  /** Secrets that go by environment; only into a sandbox. */
  secret_env?: Record<string, string>;
  /** The folder that lasts, as the process sees it. */
  data_dir?: string;
  /** Absent: a plain process. */
  confine?: {
    sandbox: Sandbox;
    grant: Grant;
    lifetime: "call" | "pooled";
    binds: readonly DialectLaunch["binds"][number][];
    /** Of a kernel plugin: where it is inside, and the folder that it keeps. */
    shape?: Pick<ConfineRequest, "folder_at" | "hidden" | "links" | "state">;
    /** Opens the way out of this one process; whoever launches it closes it. */
    way_out: () => EgressSession;
  };
}

export interface Launched {
  child: ChildProcessWithoutNullStreams;
  pid: number;
  /** Null: a plain process. */
  confined: Confined | null;
  /** Null: the sandbox ends with all that is in it. */
  tree: ProcessTree | null;
  entry: Extract<Entrypoint, { found: true }>;
}

type FoundEntry = Extract<Entrypoint, { found: true }>;

const NO_HOME = "/nonexistent";
const BUSY_TRIES = 5;
const BUSY_WAIT_MS = 20;

export async function launch(
  plan: LaunchPlan,
  place: Place,
  watchdog: Watchdog,
  trees: ProcessTrees,
): Promise<Launched> {
  const entry = await resolveEntrypoint(plan.runtime.entrypoint, plan.folder, place.interpreters);
  if (!entry.found) throw launchFailed(await explainUnresolved(entry, place));
  // execvp would hand a file that the kernel does not know to /bin/sh; such a file is refused here instead.
  const unfit = await explainUnfit(entry, place);
  if (unfit !== null) throw launchFailed(unfit);
  if (plan.confine !== undefined) return await launchConfined(plan, plan.confine, entry, place, watchdog);
  const tree = trees.begin();
  const env = { ...environmentOf(plan, entry, place), ...tree.env };
  for (let attempt = 1; ; attempt++) {
    watchdog.ready();
    const started = await spawnOnce(entry, plan.folder, env, watchdog, tree);
    if (typeof started !== "string") return { ...started, entry, confined: null, tree };
    // Another fork of this very process may hold a just-written file open for a moment.
    if (started !== "ETXTBSY" || attempt === BUSY_TRIES) {
      throw launchFailed(await explainSpawn(entry, started, place), { reason: started });
    }
    await new Promise((resolve) => setTimeout(resolve, BUSY_WAIT_MS));
  }
}

async function launchConfined(
  plan: LaunchPlan,
  { sandbox, grant, lifetime, binds, shape, way_out }: NonNullable<LaunchPlan["confine"]>,
  entry: FoundEntry,
  place: Place,
  watchdog: Watchdog,
): Promise<Launched> {
  const program = await findProgram(entry, place.surroundings.home);
  const folder = await realpath(plan.folder);
  watchdog.ready();
  try {
    const confined = await sandbox.launch({
      grant,
      lifetime,
      folder,
      program,
      env: { ...plan.runtime.env, ...plan.secret_env },
      binds,
      ...shape,
      way_out: way_out(),
    });
    watchdog.watch(confined.pid);
    return { child: confined.child, pid: confined.pid, entry, confined, tree: null };
  } catch (error) {
    const errno = (error as BackplaneError).details?.errno;
    if (typeof errno !== "number") throw error;
    const reason = getSystemErrorName(-errno);
    throw launchFailed(await explainSpawn(entry, reason, place), { reason });
  }
}

/**
 * Exactly this, side.env: nothing of the host's own environment. The manifest cannot change the PATH. Python, also as the
 * interpreter of a package's script, would write compiled files beside its sources, where nothing may change.
 */
function environmentOf(plan: LaunchPlan, entry: FoundEntry, place: Place): Record<string, string> {
  return {
    ...plan.runtime.env,
    PATH: place.interpreters.path.join(":"),
    HOME: plan.home ?? NO_HOME,
    TMPDIR: plan.home ?? NO_HOME,
    LANG: plan.runtime.env.LANG ?? "C.UTF-8",
    ...(entry.in_package || entry.label.startsWith("python") ? { PYTHONDONTWRITEBYTECODE: "1" } : {}),
  };
}

async function spawnOnce(
  entry: FoundEntry,
  cwd: string,
  env: Record<string, string>,
  watchdog: Watchdog,
  tree: ProcessTree,
): Promise<{ child: ChildProcessWithoutNullStreams; pid: number } | string> {
  let child: ChildProcessWithoutNullStreams;
  try {
    child = spawn(entry.file, entry.args, { cwd, env, detached: true, shell: false, stdio: "pipe" });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "EUNKNOWN";
  }
  const failed = new Promise<string>((resolve) => {
    child.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "EUNKNOWN"));
  });
  // A stream without an error listener would take the gateway down.
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", () => {});
  if (child.pid === undefined) return await failed;
  // In the very tick of its birth: from here on it does not outlive us.
  watchdog.watch(child.pid, tree.mark);
  tree.track(child.pid);
  return { child, pid: child.pid };
}

export function killLaunched({ confined, tree }: Launched): void {
  tree?.kill();
  confined?.kill();
}

function launchFailed(message: string, details?: Record<string, unknown>): BackplaneError {
  return new BackplaneError("launch_failed", message, details === undefined ? {} : { details });
}
