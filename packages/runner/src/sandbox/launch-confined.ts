/**
 * One process through the parts of a sandbox: slot, plan, spawn, listeners, start; and at its end the cause, the way
 * out closed and the slot back. The session of its way out is this file's to close, also when there is no start.
 */
import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { getSystemErrorName } from "node:util";
import { type ArtifactFault, BackplaneError } from "@backplane/contract";
import { faultOf } from "../artifacts/artifact-fault.ts";
import type { EgressSession } from "../egress/create-egress.ts";
import { takeListeners } from "../egress/take-listeners.ts";
import { loadPerProcessor } from "../time/sample-tree.ts";
import { ownFilesChanged, type Spawned, spawnConfined } from "./bubblewrap.ts";
import { directLine, stageWords } from "./bubblewrap-arguments.ts";
import { causeOfDeath, type Death, keptFull } from "./cause-of-death.ts";
import { giveFolder } from "./chown-folder.ts";
import { hostsFile } from "./host-files.ts";
import type { SandboxLimits } from "./limits.ts";
import { missing, type SandboxParts } from "./make-sandbox.ts";
import { plan, refusedMount, type SandboxPlan, type SandboxRequest } from "./plan.ts";
import type { Prepared } from "./prepared-slots.ts";
import { ownState } from "./state-user.ts";

export interface Confined {
  /** Its streams are the plugin's own; its pid is the outer process, which ends after the sandbox. */
  child: Spawned["child"];
  pid: number;
  /** Null: it was launched without one. */
  way_out: EgressSession | null;
  /** Makes, removes a folder of scratch; false: it could not, and the process is not to be used again. */
  makeScratch(name: string): Promise<boolean>;
  removeScratch(name: string): Promise<boolean>;
  /** A file of a scratch folder, or why it is not given. */
  readArtifact(name: string, path: string, max_bytes: number): Promise<Buffer | ArtifactFault>;
  /** False: there is no room. */
  writeArtifact(name: string, file: string, bytes: Uint8Array): Promise<boolean>;
  kill(why?: "timeout"): void;
  /** After the last process in there is gone and the slot is free again. */
  death: Promise<Death>;
}

export type ConfineRequest = Omit<SandboxRequest, "slot" | "has_assets" | "way" | "state"> & {
  /** A folder on the host that the process may call its own for good. */
  state?: string;
  /** Absent: there is no way out, whatever the grant says. */
  way_out?: EgressSession;
};

/** For a machine that is out of breath; a usual start takes milliseconds. */
const START_MS = 15_000;
/** How long the output of a plugin that is gone may take to be read. */
const LAST_WORDS_MS = 2_000;

export async function launchConfined(made: SandboxParts, request: ConfineRequest): Promise<Confined> {
  try {
    return await launchWithin(made, request);
  } catch (error) {
    await request.way_out?.close();
    throw error;
  }
}

async function launchWithin(made: SandboxParts, request: ConfineRequest): Promise<Confined> {
  const { way_out = null, state: folder, ...asked } = request;
  const hosts_file =
    way_out === null || way_out.hosts.length === 0 ? null : hostsFile(made.tools.own, way_out.hosts);
  const way = way_out === null ? {} : { way: { listeners: way_out.listeners, env: way_out.env, hosts_file } };
  const uid = folder === undefined || made.host.first_uid === null ? null : await ownState(folder);
  const state = folder === undefined ? {} : { state: { source: folder, uid } };
  const prepared = await made.prepared.take(uid);
  const { slot } = prepared;
  let spawned: Spawned;
  let shown: string[];
  try {
    // A link is no folder of its own: what it leads to has another name, or is not in there at all.
    const assets = lstatSync(join(request.folder, "assets"), { throwIfNoEntry: false });
    const has_assets = assets?.isDirectory() ?? false;
    const planned = plan({ ...asked, ...way, ...state, slot: slot.index, has_assets }, made.host);
    assertMounted(asked.grant.mounts);
    for (const { source, writable } of asked.binds ?? []) {
      if (writable && planned.uid !== null) await giveFolder(source, planned.uid);
    }
    shown = planned.mounts.map(({ source }) => source);
    made.tools.own.confirm(shown);
    spawned = begin(made, prepared, planned);
  } catch (error) {
    await made.prepared.discard(prepared);
    throw error;
  }
  const { child, control } = spawned;
  const handed = way_out === null ? Promise.resolve() : takeListeners(child, way_out);
  handed.catch(() => {});
  let timed_out = false;
  const death = new Promise<void>((resolve) => child.once("close", () => resolve())).then(async () => {
    // A listener that stays open here would keep the sandbox's network alive.
    await way_out?.close();
    const counted = made.slots.release(slot);
    const exit = { code: child.exitCode, signal: child.signalCode };
    const cpu_bounded = request.lifetime === "call";
    return causeOfDeath({ report: control.ended, exit, counted, cpu_bounded, timed_out }, made.host.limits);
  });
  const entry = { kill: () => spawned.kill(), death };
  made.live.add(entry);
  void death.finally(() => made.live.delete(entry));
  control.onEnded(() => leaveAfter(spawned));
  const late = setTimeout(entry.kill, START_MS * loadPerProcessor());
  const start = await control.started;
  const lost = start.started ? await handed.then(none, (error: unknown) => error) : null;
  clearTimeout(late);
  made.prepared.refill();
  const end = async (why: () => unknown): Promise<never> => {
    spawned.kill();
    child.stdout.resume();
    child.stderr.resume();
    await death;
    throw why();
  };
  if (!start.started) await end(() => failedStart(start.errno, spawned.words(), made.host.limits));
  if (lost !== null) await end(() => lost);
  if (!made.tools.own.confirm(shown)) await end(ownFilesChanged);
  return {
    child,
    pid: spawned.pid,
    way_out,
    makeScratch: async (name) => (await control.ask("make", name)) === 0,
    removeScratch: async (name) => (await control.ask("remove", name)) === 0,
    readArtifact: async (name, path, max_bytes) => {
      const read = await control.get(name, path, max_bytes);
      return typeof read === "number" ? faultOf(getSystemErrorName(-read)) : read;
    },
    writeArtifact: async (name, file, bytes) => (await control.put(name, file, bytes)) === 0,
    kill: (why) => {
      timed_out ||= why === "timeout";
      spawned.kill();
    },
    death,
  };
}

/** A folder that went away is the binding's trouble, not the sandbox's, though bwrap would stumble over it. */
function assertMounted(mounts: SandboxRequest["grant"]["mounts"]): void {
  const gone = mounts.find(({ source }) => !existsSync(source));
  if (gone !== undefined) throw refusedMount(gone.source, "the gateway's machine has no such folder");
}

const EDQUOT = 122;
const none = () => null;

function begin({ tools }: SandboxParts, { staged }: Prepared, planned: SandboxPlan): Spawned {
  const spawned = staged?.spawned ?? spawnConfined(directLine(planned, tools.program), tools);
  if (staged !== null) spawned.control.stage(stageWords(planned, tools.program, staged.stage));
  spawned.control.order(planned);
  return spawned;
}

/**
 * PID 1 outlives a plugin with scratch until the channel closes. An answer that came before the end may refer to files:
 * whoever reads it asks for them before the turn is over.
 */
function leaveAfter({ child, control }: Spawned): void {
  const late = setTimeout(() => control.leave(), LAST_WORDS_MS);
  const leave = () => {
    clearTimeout(late);
    setImmediate(() => control.leave());
  };
  if (child.stdout.readableEnded || child.stdout.destroyed) leave();
  else child.stdout.once("close", leave);
}

/** From what bwrap says to what a person can do. */
function failedStart(errno: number | null, words: string, limits: SandboxLimits): BackplaneError {
  if (errno === EDQUOT) {
    return new BackplaneError(
      "launch_failed",
      `${keptFull(limits)} It is not started again until there is room.`,
      {
        details: { cause: "disk" },
        fix: "Remove files from it, or raise kept_bytes and kept_files of [sandbox.limits].",
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
  const last = words.split("\n").at(-1) || "it said nothing";
  const userns = /user namespace|uid map|Creating new namespace|No permissions to create/i.test(words);
  return missing(
    `bubblewrap could not make a sandbox: ${last.slice(0, 300)}`,
    userns
      ? "Allow unprivileged user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0"
      : "In a container, give it a /proc without masks and the right to make user namespaces.",
  );
}
