/**
 * An Agent Plugins folder, as it is: each server of its mcp.json becomes a package, its skills become one, and all of
 * them are bound. What cannot be used is named and does not keep the rest out.
 */
import { BackplaneError } from "@backplane/contract";
import type { McpServerEntry } from "@backplane/supply";
import type { Context } from "./context.ts";
import { bind, boundLines, type Done, installServers, type McpOptions, uploadWith } from "./install-mcp.ts";
import { plainLine } from "./plain-text.ts";

/** What a binding of skills has no use for. */
const NO_SERVER: McpServerEntry = {
  name: "skills",
  from: { kind: "command", command: "skills" },
  args: [],
  env: {},
  secret_env: {},
  secret_slots: [],
};

export async function installAgentPlugin(
  context: Context,
  options: McpOptions,
  folder: string,
): Promise<undefined> {
  const { AGENT_PLUGIN_SCHEMA, packageIdOf, readAgentPlugin, skillsManifest } = await import(
    "@backplane/supply"
  );
  const plugin = await readAgentPlugin(folder);
  if (plugin === null)
    throw new BackplaneError(
      "package.invalid",
      `The plugin.json of ${folder} is not one of Agent Plugins 1.x.`,
      { fix: `Write "$schema": "${AGENT_PLUGIN_SCHEMA}" into it.` },
    );
  const { name, version, description, license, servers, skills, notes } = plugin;
  for (const note of notes) context.out.note(plainLine(note));
  if (servers.length === 0 && skills.length === 0)
    throw new BackplaneError(
      "package.invalid",
      `The plugin ${name} has no server and no skill that can be used.`,
    );
  const done: Done[] = await installServers(context, options, servers, { publisher: name, version });
  if (skills.length > 0) {
    const package_id = packageIdOf(name, "skills");
    const manifest = skillsManifest({ package_id, version, name, description, license, skills });
    const installed = await uploadWith(context, manifest, folder);
    context.out.note(plainLine(`Skills: ${skills.map((skill) => skill.name).join(", ")}`));
    const { bind: wanted, orgWide } = options;
    const own: McpOptions = orgWide === undefined ? {} : { orgWide };
    const bindings = wanted === false ? [] : [await bind(context, installed, NO_SERVER, own)];
    done.push({ package: installed, bindings });
  }
  context.out.data({ plugin: { name, version }, packages: done, notes }, () => boundLines(done));
  return undefined;
}
