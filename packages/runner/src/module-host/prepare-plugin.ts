/**
 * Prepares the launch of one hosted plugin. In the sandbox it can read its packages and the host program, write its
 * state, and reach the domains that the operator lists. It runs as a plain process only without a boundary or if the
 * operator disabled the sandbox; there is no silent fallback.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { BackplaneError, type Grant, type PluginEntry, type Runtime } from "@backplane/contract";
import type { PluginNetworkAccess } from "@backplane/ports";
import type { Egress } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import type { LaunchPlan } from "../processes/launch.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import type { Sandbox } from "../sandbox/open-sandbox.ts";
import { INSIDE } from "../sandbox/plan.ts";
import type { HostProgram } from "./host-program.ts";
import { type PluginTree, resolvePluginTree } from "./plugin-tree.ts";
import { copyReadable } from "./readable-copy.ts";

/** The sandbox, egress and scratch of the runner, shared by all plugins. */
export interface HostBoundary {
  confinement: Confinement;
  egress: Egress;
  scratch: ScratchFolders;
}

export interface PrepareOptions {
  /** Null to run plugins as plain processes. */
  boundary: HostBoundary | null;
  /** The host program: its path on the host, and its mounts in the sandbox. */
  host_module: string;
  host_program: () => HostProgram;
  node_args: readonly string[];
  frame_bytes: number;
  env: Record<string, string>;
  state: (name: string) => string | null;
  /** Folders that are hidden from every plugin, even within its own folder. */
  hidden_folders: readonly string[];
}

export interface PreparedPlugin {
  plan: LaunchPlan;
  /** Paths as the process sees them. */
  module: string;
  state_dir: string | null;
  /** Replaces sandbox paths in text with paths on this machine. */
  toHostPaths(text: string): string;
  /** Called after the process has exited. Never throws. */
  cleanUp(): Promise<void>;
}

const COPY = "copy";

export async function preparePlugin(
  options: PrepareOptions,
  entry: PluginEntry,
  network: PluginNetworkAccess,
  refused: (refusal: Refusal) => void,
): Promise<PreparedPlugin> {
  const sandbox = await chooseSandbox(options.boundary, entry);
  if (sandbox !== null) return await prepareConfined(options, sandbox, entry, network, refused);
  const plan = {
    runtime: buildRuntime(options, options.host_module),
    folder: entry.dir,
    home: options.state(entry.name),
  };
  return {
    plan,
    module: entry.module,
    state_dir: null,
    toHostPaths: (text) => text,
    cleanUp: async () => {},
  };
}

async function chooseSandbox(boundary: HostBoundary | null, { name }: PluginEntry): Promise<Sandbox | null> {
  if (boundary === null) return null;
  await boundary.confinement.opening;
  const { sandbox, refusal } = boundary.confinement.boundaryFor({ class: "worker", grant: {} });
  if (refusal === null) return sandbox;
  const { fix } = refusal;
  // The status of a failed plugin shows the message only, not the code.
  const message = `${name} can only run in the sandbox (sandbox.unavailable). ${refusal.message}`;
  throw new BackplaneError("sandbox.unavailable", message, {
    ...(fix === undefined ? {} : { fix }),
    cause: refusal,
  });
}

async function prepareConfined(
  options: PrepareOptions,
  sandbox: Sandbox,
  entry: PluginEntry,
  network: PluginNetworkAccess,
  refused: (refusal: Refusal) => void,
): Promise<PreparedPlugin> {
  const { egress, scratch } = options.boundary!;
  const tree = await resolvePluginTree(entry, options.hidden_folders);
  const copy = tree.needs_copy ? await copyTree(scratch, tree) : null;
  const program = options.host_program();
  const grant = grantOf(network);
  const state = options.state(entry.name);
  return {
    module: tree.module,
    state_dir: state === null ? null : INSIDE.state,
    toHostPaths: (text) => tree.toHostPaths(text),
    cleanUp: async () => {
      if (copy !== null) await scratch.remove(copy);
    },
    plan: {
      runtime: buildRuntime(options, program.file),
      folder: copy === null ? tree.folder : join(copy, COPY),
      home: null,
      confine: {
        sandbox,
        grant,
        lifetime: "pooled",
        package_id: entry.name,
        binds: [...tree.binds, ...program.binds],
        shape: {
          folder_at: tree.folder_at,
          hidden: tree.hidden,
          links: program.links,
          ...(state === null ? {} : { state }),
        },
        openEgress: () => egress.open({ grant, refused }),
      },
    },
  };
}

async function copyTree(scratch: ScratchFolders, tree: PluginTree): Promise<string> {
  const folder = await scratch.make(`proc_plugin_${randomUUID()}`);
  try {
    await copyReadable(tree.folder, join(folder, COPY), tree.own_folders);
    return folder;
  } catch (error) {
    await scratch.remove(folder);
    throw error;
  }
}

/** Scratch is the plugin's TMPDIR. It is in memory and removed with the process. */
function grantOf({ allowed_domains }: PluginNetworkAccess): Grant {
  return {
    class: "isolated",
    network: allowed_domains.length === 0 ? "none" : "egress",
    allowed_domains: [...allowed_domains],
    filesystem: "scratch",
    mounts: [],
    gateway_api_scopes: [],
    secret_slots: [],
    capabilities: [],
    tools: [],
  };
}

function buildRuntime({ env, frame_bytes, node_args }: PrepareOptions, host: string): Runtime {
  return {
    protocol: "module.kernel",
    transport: "stdio",
    entrypoint: ["node", ...node_args, host, String(frame_bytes)],
    env,
  };
}
