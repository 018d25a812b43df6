/**
 * Installs an Agent Plugins folder. The gateway splits it into packages (one for each server of its mcp.json, one for its
 * skills), which are then bound. Invalid parts are reported and skipped.
 */
import { type AgentPluginInstalled, type Binding, isDescribed } from "@backplane/contract";
import { assertSlots, bindWhole } from "../bindings/bind-exports.ts";
import { type BindingParts, bindingParts } from "../bindings/binding-flags.ts";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { boundLines, type Installed, type McpOptions, reportBinding } from "./install-mcp.ts";
import { reportLeftOut } from "./left-out.ts";
import { packedFolder } from "./upload-folder.ts";

type Part = AgentPluginInstalled["packages"][number];

/** Returns the exit code: ok, or partial. */
export async function installAgentPlugin(
  context: Context,
  options: McpOptions,
  folder: string,
): Promise<number> {
  const { out } = context;
  // Checks the flags before anything is uploaded.
  const flags = await bindingParts(context, options);
  const { plugin, packages, left_out, notes } = await packedFolder(folder, (archive) =>
    context.client().packages.installAgentPlugin(archive, { strict: options.strict === true }),
  );
  for (const note of notes) out.note(plainLine(note));
  if (options.bind !== false) assertSlots(`No server of ${plugin.name}`, packages.flatMap(slotsOf), flags);
  const done: Installed[] = [];
  for (const part of packages) {
    const { package: installed } = part;
    out.note(plainLine(`Installed ${installed.package_id}@${installed.version} (${installed.digest})`));
    const skills = (installed.manifest.skills ?? []).map(({ name }) => name);
    if (skills.length > 0) out.note(plainLine(`Skills: ${skills.join(", ")}`));
    const bindings = options.bind === false ? [] : [await bindPart(context, part, flags, options)];
    done.push({ package: installed, bindings });
    if (!isDescribed(installed.manifest.runtime.protocol)) continue;
    for (const binding of bindings) await reportBinding(context, binding);
  }
  out.data({ plugin, packages: done, left_out, notes }, () => boundLines(done));
  return reportLeftOut(context, left_out);
}

function slotsOf({ package: { manifest } }: Part): readonly string[] {
  return manifest.runtime.permissions?.secret_slots ?? [];
}

/** Flags override the settings of the plugin; each part gets the secrets that it has a slot for. */
async function bindPart(
  context: Context,
  part: Part,
  flags: BindingParts,
  options: McpOptions,
): Promise<Binding> {
  const { package: installed, binding } = part;
  const org_wide = options.orgWide === true;
  const { runtime } = installed.manifest;
  if (!isDescribed(runtime.protocol)) return await bindWhole(context, installed, {}, org_wide);
  const slots = slotsOf(part);
  const own = Object.entries(flags.secrets ?? {}).filter(([slot]) => slots.includes(slot));
  const { config, policy } = binding;
  const { secrets: _all, ...rest } = flags;
  const parts: BindingParts = {
    ...rest,
    ...(config === undefined ? {} : { config: { ...config, ...flags.config } }),
    ...(policy === undefined ? {} : { policy: { ...policy, ...flags.policy } }),
    ...(own.length === 0 ? {} : { secrets: Object.fromEntries(own) }),
  };
  return await bindWhole(context, installed, parts, org_wide);
}
