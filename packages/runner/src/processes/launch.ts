/**
 * Starts one plugin process without a shell, in its own session and process group, with a minimal environment and
 * pipes on all standard streams, inside a sandbox if the plan has one. A signal to the process group does not reach all
 * descendants; a kill of the process tree or of the sandbox does.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { realpath } from "node:fs/promises";
import { getSystemErrorName } from "node:util";
import { BackplaneError, type Grant, type Runtime } from "@backplane/contract";
import type { EgressSession } from "../egress/create-egress.ts";
import type { DialectLaunch } from "../ports/dialect.ts";
import {
  explainSpawn,
  explainUnresolved,
  explainUnsupportedFormat,
  type LaunchEnvironment,
} from "../programs/diagnose-launch.ts";
import { keepOutput } from "../programs/keep-output.ts";
import { type Entrypoint, resolveEntrypoint } from "../programs/resolve-entrypoint.ts";
import { findProgram } from "../sandbox/find-program.ts";
import type { ConfinedProcess, ConfineRequest } from "../sandbox/launch-confined.ts";
import type { Sandbox } from "../sandbox/open-sandbox.ts";
import type { ProcessTree, ProcessTrees } from "../supervision/process-trees.ts";
import type { Watchdog } from "../supervision/watchdog.ts";

export interface LaunchPlan {
  runtime: Runtime;
  /** The verified package folder. It is the working directory and must not be changed. */
  folder: string;
  /** The root file system of a container image, instead of the host's. */
  image_root?: string;
  /** The home of the process, which it can write to; null without a grant for one. */
  home: string | null;
  /** The home of a plain process, if it was created for this process; never the operator's own folder. */
  scratch?: string;
  /** Secrets as environment variables; only for a sandboxed process. */
  secret_env?: Record<string, string>;
  /** The data folder, as the process sees it. */
  data_dir?: string;
  /** Absent for a plain process. */
  confine?: {
    sandbox: Sandbox;
    grant: Grant;
    lifetime: "call" | "pooled";
    package_id: string;
    binds: readonly DialectLaunch["binds"][number][];
    /** For a kernel plugin: its paths in the sandbox, and its state folder. */
    shape?: Pick<ConfineRequest, "folder_at" | "hidden" | "links" | "state">;
    /** Opens the egress session of this process; the launch closes it. */
    openEgress: () => EgressSession;
  };
}

export interface LaunchedProcess {
  child: ChildProcessWithoutNullStreams;
  pid: number;
  /** Null for a plain process. */
  confined: ConfinedProcess | null;
  /** Null for a sandboxed process, whose sandbox ends with all its processes. */
  tree: ProcessTree | null;
  entry: FoundEntry;
}

type FoundEntry = Extract<Entrypoint, { found: true }>;

const NO_HOME = "/nonexistent";
const BUSY_TRIES = 5;
const BUSY_WAIT_MS = 20;

export async function launch(
  plan: LaunchPlan,
  environment: LaunchEnvironment,
  watchdog: Watchdog,
  trees: ProcessTrees,
): Promise<LaunchedProcess> {
  const { image_root } = plan;
  if (image_root !== undefined) return await launchImage(plan, image_root, environment, watchdog);
  const entry = await resolveEntrypoint(plan.runtime.entrypoint, plan.folder, environment.interpreters);
  if (!entry.found) throw launchFailed(await explainUnresolved(entry, environment));
  // execvp would run a file of an unknown format with /bin/sh, so such a file is rejected here.
  const format_problem = await explainUnsupportedFormat(entry, environment);
  if (format_problem !== null) throw launchFailed(format_problem);
  if (plan.confine !== undefined)
    return await launchInSandbox(plan, plan.confine, entry, environment, watchdog);
  const tree = trees.begin();
  const env = { ...buildEnvironment(plan, entry, environment), ...tree.env };
  for (let attempt = 1; ; attempt++) {
    watchdog.start();
    const started = await spawnOnce(entry, plan.folder, env, watchdog, tree);
    if (typeof started !== "string") return { ...started, entry, confined: null, tree };
    // Another fork of this process can hold a file open for a moment after it was written.
    if (started !== "ETXTBSY" || attempt === BUSY_TRIES) {
      throw launchFailed(await explainSpawn(entry, started, environment), { reason: started });
    }
    await new Promise((resolve) => setTimeout(resolve, BUSY_WAIT_MS));
  }
}

/** The entrypoint of an image is a path inside it, which only the sandbox can show. */
async function launchImage(
  plan: LaunchPlan,
  root: string,
  environment: LaunchEnvironment,
  watchdog: Watchdog,
): Promise<LaunchedProcess> {
  if (plan.confine === undefined)
    throw new BackplaneError("sandbox.unavailable", "Container images run only in the sandbox.");
  const [file = "", ...args] = plan.runtime.entrypoint;
  const entry = { found: true, file, args, label: file, in_package: true } as const;
  const image = { root: await realpath(root), workdir: plan.runtime.image?.workdir ?? "/" };
  return await launchInSandbox(
    plan,
    plan.confine,
    { ...entry, args: [...args] },
    environment,
    watchdog,
    image,
  );
}

async function launchInSandbox(
  plan: LaunchPlan,
  { sandbox, grant, lifetime, package_id, binds, shape, openEgress }: NonNullable<LaunchPlan["confine"]>,
  entry: FoundEntry,
  environment: LaunchEnvironment,
  watchdog: Watchdog,
  image?: ConfineRequest["image"],
): Promise<LaunchedProcess> {
  const program =
    image === undefined
      ? await findProgram(entry, environment.host_paths.home)
      : ({ kind: "image", file: entry.file, args: entry.args } as const);
  const folder = await realpath(plan.folder);
  watchdog.start();
  try {
    const confined = await sandbox.launch({
      grant,
      lifetime,
      package_id,
      folder,
      program,
      env: { ...plan.runtime.env, ...plan.secret_env },
      binds,
      ...(image === undefined ? {} : { image }),
      ...shape,
      egress: openEgress(),
    });
    watchdog.watch(confined.pid);
    return { child: confined.child, pid: confined.pid, entry, confined, tree: null };
  } catch (error) {
    const errno = (error as BackplaneError).details?.errno;
    if (typeof errno !== "number") throw error;
    const reason = getSystemErrorName(-errno);
    throw launchFailed(await explainSpawn(entry, reason, environment), { reason });
  }
}

/**
 * The environment of a plain process (side.env), to which only the mark of its process tree is added. Nothing is
 * inherited, and the manifest cannot change PATH, HOME or TMPDIR. Python would write compiled files next to its
 * sources, which must not change; a script of the package may use Python as its interpreter.
 */
function buildEnvironment(
  plan: LaunchPlan,
  entry: FoundEntry,
  environment: LaunchEnvironment,
): Record<string, string> {
  return {
    ...plan.runtime.env,
    PATH: environment.interpreters.path.join(":"),
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
  // An error on a stream without a listener would crash the gateway.
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", () => {});
  if (child.pid === undefined) return await failed;
  keepOutput(child.stdout);
  keepOutput(child.stderr);
  // In the same tick as the spawn, so that the process never outlives the gateway.
  watchdog.watch(child.pid, tree.mark);
  tree.track(child.pid);
  return { child, pid: child.pid };
}

export function killLaunched({ confined, tree }: LaunchedProcess): void {
  tree?.kill();
  confined?.kill();
}

function launchFailed(message: string, details?: Record<string, unknown>): BackplaneError {
  return new BackplaneError("launch_failed", message, details === undefined ? {} : { details });
}
