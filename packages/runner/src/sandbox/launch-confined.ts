/**
 * Launches one process in the sandbox: slot, plan, spawn, listeners, start. When it exits, determines the cause,
 * closes its egress session and releases the slot. The egress session is also closed if the start fails.
 */
import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { getSystemErrorName } from "node:util";
import { type ArtifactFault, BackplaneError, isArtifactPath } from "@backplane/contract";
import { faultOf } from "../artifacts/artifact-fault.ts";
import type { EgressSession } from "../egress/create-egress.ts";
import { receiveListeners } from "../egress/receive-listeners.ts";
import { discardOutput } from "../programs/keep-output.ts";
import { loadPerProcessor } from "../time/sample-tree.ts";
import { bwrapCommand } from "./bubblewrap-arguments.ts";
import { chownFolder } from "./chown-folder.ts";
import {
  determineExitCause,
  type ExitCause,
  describeFullPersistentFolder,
  describeLimitFix,
} from "./exit-cause.ts";
import { writeHostsFile } from "./host-files.ts";
import { readImageEntries } from "./image-entries.ts";
import type { SandboxLimits } from "./limits.ts";
import { plan, refusedMount, type SandboxPlan, type SandboxRequest } from "./plan.ts";
import type { PreparedSlot } from "./prepared-slots.ts";
import { type SandboxParts, sandboxError } from "./sandbox-parts.ts";
import { ownFilesChanged, type SpawnedProcess, spawnConfined } from "./spawn-confined.ts";
import { stageCommands } from "./stage-commands.ts";
import { claimStateFolder } from "./state-user.ts";
import { openTrafficCounter, type TrafficCounter } from "./traffic-counter.ts";
import { userNamespaceFix } from "./user-namespaces.ts";

export interface ConfinedProcess {
  /** The streams are those of the plugin. The pid is that of the outer process, which exits after the sandbox. */
  child: SpawnedProcess["child"];
  pid: number;
  /** Null if the process was launched without egress. */
  egress: EgressSession | null;
  /** Create and remove a scratch folder. False if that failed; the process must then not be used again. */
  makeScratch(name: string): Promise<boolean>;
  removeScratch(name: string): Promise<boolean>;
  /** Returns the contents of a file in a scratch folder, or why it cannot be read. */
  readArtifact(name: string, path: string, max_bytes: number): Promise<Buffer | ArtifactFault>;
  /** Like `readArtifact`, for a file anywhere in the scratch of the process. */
  readScratch(path: string, max_bytes: number): Promise<Buffer | ArtifactFault>;
  /** False if the file could not be written, usually because there is no space. */
  writeArtifact(name: string, file: string, bytes: Uint8Array): Promise<boolean>;
  /**
   * Resolves when the egress session has recorded everything that was refused inside the sandbox until now. Null if it
   * already has.
   */
  pendingRefusals(): Promise<void> | null;
  /** The errno that prevents the recording of connections refused inside the sandbox; null if they are recorded. */
  untraced: number | null;
  kill(reason?: "timeout"): void;
  /** Resolves when the last process of the sandbox has exited and the slot is released. */
  exitCause: Promise<ExitCause>;
}

export type ConfineRequest = Omit<SandboxRequest, "slot" | "has_assets" | "network" | "state" | "image"> & {
  /** The expanded root of a container image. */
  image?: { root: string; workdir: string };
  /** A persistent folder on the host that the process owns. */
  state?: string;
  /** If absent, there is no egress, whatever the grant says. */
  egress?: EgressSession;
  /** The id of a package or the name of a kernel plugin. An operator may have set limits for it. */
  package_id?: string;
};

/** Long enough for an overloaded machine; a start usually takes milliseconds. */
const START_MS = 15_000;
/** How long reading the remaining output of an exited plugin may take. */
const OUTPUT_MS = 2_000;

export async function launchConfined(parts: SandboxParts, request: ConfineRequest): Promise<ConfinedProcess> {
  try {
    return await launchWithin(parts, request);
  } catch (error) {
    await request.egress?.close();
    throw error;
  }
}

async function launchWithin(parts: SandboxParts, request: ConfineRequest): Promise<ConfinedProcess> {
  const { egress = null, state: folder, image: requested_image, package_id, ...requested } = request;
  const limits = parts.getLimits(package_id);
  const image =
    requested_image === undefined
      ? {}
      : { image: { ...requested_image, entries: readImageEntries(requested_image.root) } };
  const hosts_file =
    egress === null || egress.hosts.length === 0 ? null : writeHostsFile(parts.tools.copies, egress.hosts);
  const network =
    egress === null ? {} : { network: { listeners: egress.listeners, env: egress.env, hosts_file } };
  const uid = folder === undefined || parts.host.first_uid === null ? null : await claimStateFolder(folder);
  const state = folder === undefined ? {} : { state: { source: folder, uid } };
  const prepared = await parts.prepared.take(uid, limits);
  const { slot } = prepared;
  let spawned: SpawnedProcess;
  let own_files: string[];
  try {
    // A link does not count: its target has another name, or is outside the package.
    const assets = lstatSync(join(request.folder, "assets"), { throwIfNoEntry: false });
    const has_assets = assets?.isDirectory() ?? false;
    const planned = plan(
      { ...requested, ...network, ...state, ...image, slot: slot.index, has_assets },
      { ...parts.host, limits },
    );
    assertMounted(requested.grant.mounts);
    for (const { source, writable } of requested.binds ?? []) {
      if (writable && planned.uid !== null) await chownFolder(source, planned.uid);
    }
    own_files = [parts.tools.init, ...planned.mounts.map(({ source }) => source)];
    parts.tools.copies.verify(own_files);
    spawned = spawnPlanned(parts, prepared, planned);
  } catch (error) {
    await parts.prepared.discard(prepared);
    throw error;
  }
  const { child, control } = spawned;
  const listeners_received = egress === null ? Promise.resolve() : receiveListeners(child, egress);
  listeners_received.catch(() => {});
  let timed_out = false;
  let traffic: TrafficCounter | null = null;
  control.onRefused((attempt) => egress?.recordDirect(attempt));
  const exitCause = new Promise<void>((resolve) => child.once("close", () => resolve())).then(async () => {
    // An open listener would keep the sandbox's network namespace alive.
    await egress?.close();
    traffic?.close();
    const counted = parts.slots.release(slot);
    const exit = { code: child.exitCode, signal: child.signalCode };
    const cpu_bounded = request.lifetime === "call";
    return determineExitCause(
      { report: control.ended, exit, counted, cpu_bounded, timed_out },
      limits,
      package_id,
    );
  });
  const entry = { kill: () => spawned.kill(), exitCause };
  parts.live.add(entry);
  void exitCause.finally(() => parts.live.delete(entry));
  control.onEnded(() => closeAfterOutput(spawned));
  const timer = setTimeout(entry.kill, START_MS * loadPerProcessor());
  const start = await control.started;
  const listener_error = start.started
    ? await listeners_received.then(toNull, (error: unknown) => error)
    : null;
  clearTimeout(timer);
  parts.prepared.refill();
  const failStart = async (reason: () => unknown): Promise<never> => {
    spawned.kill();
    discardOutput(child.stdout);
    discardOutput(child.stderr);
    await exitCause;
    throw reason();
  };
  if (!start.started)
    await failStart(() => startError(start.errno, spawned.errorOutput(), limits, package_id));
  if (listener_error !== null) await failStart(() => listener_error);
  if (!parts.tools.copies.verify(own_files)) await failStart(ownFilesChanged);
  /** The traffic counter at the last report of refused connections. */
  let reported_counter: string | null = null;
  return {
    child,
    pid: spawned.pid,
    egress,
    untraced: control.untraced,
    pendingRefusals: () => {
      // The counter is opened at the first answer. With bwrap there is none: its outer process has another network.
      if (prepared.staged !== null && child.exitCode === null && child.signalCode === null)
        traffic ??= openTrafficCounter(spawned.pid);
      const counter = traffic?.read() ?? null;
      if (control.untraced !== null || (counter !== null && counter === reported_counter)) return null;
      return control.requestTrace().then(() => {
        reported_counter = counter;
      });
    },
    makeScratch: async (name) => (await control.sendFolderCommand("make", name)) === 0,
    removeScratch: async (name) => (await control.sendFolderCommand("remove", name)) === 0,
    readArtifact: async (name, path, max_bytes) => {
      const read = await control.get(name, path, max_bytes);
      return typeof read === "number" ? faultOf(getSystemErrorName(-read)) : read;
    },
    readScratch: async (path, max_bytes) => {
      if (!isArtifactPath(path)) return "bad_path";
      const read = await control.getBelowScratch(path, max_bytes);
      return typeof read === "number" ? faultOf(getSystemErrorName(-read)) : read;
    },
    writeArtifact: async (name, file, bytes) => (await control.put(name, file, bytes)) === 0,
    kill: (reason) => {
      timed_out ||= reason === "timeout";
      spawned.kill();
    },
    exitCause,
  };
}

/** A missing folder is an error of the binding; the sandbox would report it as a failure of the sandbox. */
function assertMounted(mounts: SandboxRequest["grant"]["mounts"]): void {
  const missing = mounts.find(({ source }) => !existsSync(source));
  if (missing !== undefined)
    throw refusedMount(missing.source, "the folder does not exist on the gateway's machine");
}

const EDQUOT = 122;
const toNull = () => null;

function spawnPlanned(
  { tools }: SandboxParts,
  { staged }: PreparedSlot,
  planned: SandboxPlan,
): SpawnedProcess {
  const spawned = staged ?? spawnConfined(bwrapCommand(planned, tools.bwrap!, tools.init), tools);
  if (staged !== null) spawned.control.sendStageCommands(stageCommands(planned));
  spawned.control.sendPlan(planned);
  return spawned;
}

/**
 * PID 1 of a plugin with scratch stays until the channel closes. An answer that was read before the exit may refer
 * to files, which are requested in the same turn of the event loop.
 */
function closeAfterOutput({ child, control }: SpawnedProcess): void {
  const timer = setTimeout(() => control.closeWhenIdle(), OUTPUT_MS);
  const leave = () => {
    clearTimeout(timer);
    setImmediate(() => control.closeWhenIdle());
  };
  if (child.stdout.readableEnded || child.stdout.destroyed) leave();
  else child.stdout.once("close", leave);
}

/** Explains why the process could not be started and what to do about it. */
function startError(
  errno: number | null,
  output: string,
  limits: SandboxLimits,
  package_id: string | undefined,
): BackplaneError {
  if (errno === EDQUOT) {
    return new BackplaneError(
      "launch_failed",
      `${describeFullPersistentFolder(limits)} The plugin is not started until files are removed.`,
      {
        details: { cause: "disk" },
        fix: `Remove files from it. ${describeLimitFix("kept_bytes and kept_files", package_id)}`,
      },
    );
  }
  if (errno !== null) {
    return new BackplaneError(
      "launch_failed",
      `The program could not be started in the sandbox (errno ${errno}).`,
      {
        details: { errno },
      },
    );
  }
  const last = output.split("\n").at(-1) || "no output";
  return sandboxError(
    `a sandbox could not be created: ${last.slice(0, 300)}`,
    userNamespaceFix() ?? "In a container, provide an unmasked /proc and allow user namespaces.",
  );
}
