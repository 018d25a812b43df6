/**
 * Where one hosted plugin runs and what it finds there: in the sandbox, as everything of a third party, with its own
 * packages and the host program to read, its state to write and only the names that the operator lists to reach; a
 * plain process only where the operator has switched the sandbox off. Never a downgrade.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { BackplaneError, type Grant, type PluginEntry, type Runtime } from "@backplane/contract";
import type { PluginReach } from "@backplane/ports";
import type { Egress } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import type { Scratch } from "../plugin-folders/scratch-folders.ts";
import type { LaunchPlan } from "../processes/launch.ts";
import type { Confinement } from "../sandbox/confinement.ts";
import type { Sandbox } from "../sandbox/open-sandbox.ts";
import { INSIDE } from "../sandbox/plan.ts";
import type { HostProgram } from "./host-program.ts";
import { type PluginTree, pluginTree } from "./plugin-tree.ts";
import { openCopy } from "./readable-copy.ts";

/** The runner's own: one sandbox and one way out for everybody. */
export interface Boundary {
  confinement: Confinement;
  egress: Egress;
  scratch: Scratch;
}

export interface PlaceParts {
  boundary: Boundary | null;
  /** The host program by its path on the host, and as the sandbox shows it. */
  host_module: string;
  host_program: () => HostProgram;
  node_args: readonly string[];
  frame_bytes: number;
  env: Record<string, string>;
  state: (name: string) => string | null;
  /** Folders that no plugin sees, even when they lie within its own. */
  secluded: readonly string[];
}

export interface PluginPlace {
  plan: LaunchPlan;
  /** As the process knows them. */
  module: string;
  state_dir: string | null;
  /** What the process says, with its paths as they are on this machine. */
  outside(text: string): string;
  /** After the process is gone. Never throws. */
  leave(): Promise<void>;
}

const COPY = "copy";

export async function placePlugin(
  parts: PlaceParts,
  entry: PluginEntry,
  reach: PluginReach,
  refused: (refusal: Refusal) => void,
): Promise<PluginPlace> {
  const sandbox = await sandboxFor(parts.boundary, entry);
  if (sandbox !== null) return await placeConfined(parts, sandbox, entry, reach, refused);
  const plan = {
    runtime: runtimeOf(parts, parts.host_module),
    folder: entry.dir,
    home: parts.state(entry.name),
  };
  return { plan, module: entry.module, state_dir: null, outside: (text) => text, leave: async () => {} };
}

async function sandboxFor(boundary: Boundary | null, { name }: PluginEntry): Promise<Sandbox | null> {
  if (boundary === null) return null;
  await boundary.confinement.opening;
  const { sandbox, refusal } = boundary.confinement.of({ class: "worker", grant: {} });
  if (refusal === null) return sandbox;
  const { fix, message } = refusal;
  // Whoever reads why the plugin has failed sees only the words.
  const words = `${name} runs in the sandbox or not at all (sandbox.unavailable). ${message}`;
  throw new BackplaneError("sandbox.unavailable", words, {
    ...(fix === undefined ? {} : { fix }),
    cause: refusal,
  });
}

async function placeConfined(
  parts: PlaceParts,
  sandbox: Sandbox,
  entry: PluginEntry,
  reach: PluginReach,
  refused: (refusal: Refusal) => void,
): Promise<PluginPlace> {
  const { egress, scratch } = parts.boundary!;
  const tree = await pluginTree(entry, parts.secluded);
  const copy = tree.closed ? await copyOf(scratch, tree) : null;
  const program = parts.host_program();
  const grant = grantOf(reach);
  const state = parts.state(entry.name);
  return {
    module: tree.module,
    state_dir: state === null ? null : INSIDE.state,
    outside: (text) => tree.outside(text),
    leave: async () => {
      if (copy !== null) await scratch.remove(copy);
    },
    plan: {
      runtime: runtimeOf(parts, program.file),
      folder: copy === null ? tree.folder : join(copy, COPY),
      home: null,
      confine: {
        sandbox,
        grant,
        lifetime: "pooled",
        binds: [...tree.binds, ...program.binds],
        shape: {
          folder_at: tree.folder_at,
          hidden: copy === null ? tree.hidden : [],
          links: program.links,
          ...(state === null ? {} : { state }),
        },
        way_out: () => egress.open({ grant, refused }),
      },
    },
  };
}

async function copyOf(scratch: Scratch, tree: PluginTree): Promise<string> {
  const place = await scratch.make(`proc_plugin_${randomUUID()}`);
  try {
    await openCopy(tree.folder, join(place, COPY), tree.own);
    return place;
  } catch (error) {
    await scratch.remove(place);
    throw error;
  }
}

/** Scratch is its TMPDIR, in memory and gone with the process. */
function grantOf({ allowed_domains }: PluginReach): Grant {
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

function runtimeOf({ env, frame_bytes, node_args }: PlaceParts, host: string): Runtime {
  return {
    protocol: "module.kernel",
    transport: "stdio",
    entrypoint: ["node", ...node_args, host, String(frame_bytes)],
    env,
  };
}
