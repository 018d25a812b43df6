/**
 * An Agent Plugins folder, as it is: packed here, taken apart by the gateway (each server of its mcp.json is a package,
 * its skills are one) and bound here. What cannot be used is named and does not keep the rest out.
 */
import { type AgentPluginInstalled, type Binding, isDescribed } from "@backplane/contract";
import { assertSlots, bindWhole } from "../bindings/bind-exports.ts";
import { type BindingParts, bindingParts } from "../bindings/binding-flags.ts";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { boundLines, type Done, type McpOptions, sayBound } from "./install-mcp.ts";
import { sayLeftOut } from "./left-out.ts";
import { packedFolder } from "./upload-folder.ts";

type Part = AgentPluginInstalled["packages"][number];

/** Exit code: whether all of it is there. */
export async function installAgentPlugin(
  context: Context,
  options: McpOptions,
  folder: string,
): Promise<number> {
  const { out } = context;
  // Flags that cannot be used are found before anything is sent.
  const flags = await bindingParts(context, options);
  const { plugin, packages, left_out, notes } = await packedFolder(folder, (archive) =>
    context.client().packages.installAgentPlugin(archive, { strict: options.strict === true }),
  );
  for (const note of notes) out.note(plainLine(note));
  if (options.bind !== false) assertSlots(`No server of ${plugin.name}`, packages.flatMap(slotsOf), flags);
  const done: Done[] = [];
  for (const part of packages) {
    const { package: installed } = part;
    out.note(plainLine(`Installed ${installed.package_id}@${installed.version} (${installed.digest})`));
    const skills = (installed.manifest.skills ?? []).map(({ name }) => name);
    if (skills.length > 0) out.note(plainLine(`Skills: ${skills.join(", ")}`));
    const bindings = options.bind === false ? [] : [await bindPart(context, part, flags, options)];
    done.push({ package: installed, bindings });
    if (!isDescribed(installed.manifest.runtime.protocol)) continue;
    for (const binding of bindings) await sayBound(context, binding);
  }
  out.data({ plugin, packages: done, left_out, notes }, () => boundLines(done));
  return sayLeftOut(context, left_out);
}

function slotsOf({ package: { manifest } }: Part): readonly string[] {
  return manifest.runtime.permissions?.secret_slots ?? [];
}

/** What the plugin says, with what the flags say over it; each gets the secrets that it has a slot for. */
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
