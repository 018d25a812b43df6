/**
 * Reads an unpacked Agent Plugins folder. Each server becomes a separate package, and all skills together become one. A
 * server from npm, PyPI or a container image comes from its registry. A server that uses files of the plugin gets all of
 * them, and any other server only a manifest.
 */
import { lstat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, type Skill, WHOLE_PACKAGE } from "@backplane/contract";
import type { ImportedPackage } from "@backplane/ports";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import { formatTomlLines } from "../../manifest/toml-text.ts";
import { packTar } from "../../pack/pack-folder.ts";
import { surveyFolder } from "../../pack/survey-folder.ts";
import { toPackageId } from "../mcp/server-manifest.ts";
import { describeUnusedSettings, toServerPart } from "../mcp/server-part.ts";
import type { ContentPart, PartImporters, SourceContent } from "../parts/source-content.ts";
import { AGENT_PLUGIN_SCHEMA, type AgentPlugin, readAgentPlugin } from "./read-agent-plugin.ts";

/** Import the parts one after another, because each part with files writes its manifest to the same file in `tree`. */
export async function openAgentPlugin(tree: string, importers: PartImporters): Promise<SourceContent> {
  const plugin = await requireAgentPlugin(tree);
  const { name, version, servers, skills, left_out, notes } = plugin;
  const parts: ContentPart[] = servers.map((server) =>
    toServerPart(
      server,
      { publisher: name, version },
      (manifest) =>
        server.from.kind === "files"
          ? importWithFiles(tree, manifest, importers)
          : importers.manifest(manifest),
      importers,
    ),
  );
  if (skills.length > 0) {
    const package_id = toPackageId(name, "skills");
    parts.push({
      kind: "skill",
      name: "skills",
      registry: false,
      binding: {},
      preview: {
        name: "skills",
        package_id,
        version,
        secret_slots: [],
        exports: [WHOLE_PACKAGE],
        binds: true,
      },
      importPart: () => importWithFiles(tree, buildSkillsManifest({ ...plugin, package_id }), importers),
    });
  }
  const all_notes = [...notes, ...servers.flatMap(describeUnusedSettings)];
  return { kind: "agent_plugin", plugin: { name, version }, parts, left_out, notes: all_notes };
}

async function requireAgentPlugin(tree: string): Promise<AgentPlugin> {
  // A package with its own manifest is installed unchanged; the manifests of the parts would replace that manifest.
  if ((await lstat(join(tree, MANIFEST_FILE)).catch(() => null)) !== null)
    throw new BackplaneError(
      "package.invalid",
      `The source contains a ${MANIFEST_FILE}, so it is already a package.`,
      {
        fix: "Install it as a package, with backplane plugin install or POST /v1/plugin-packages.",
      },
    );
  const plugin = await readAgentPlugin(tree);
  if (plugin === null)
    throw new BackplaneError(
      "package.invalid",
      "The plugin.json of the source is not an Agent Plugins 1.x manifest.",
      {
        fix: `Add "$schema": "${AGENT_PLUGIN_SCHEMA}" to it.`,
      },
    );
  return plugin;
}

/** Imports a package that contains all files of the plugin. */
async function importWithFiles(
  tree: string,
  manifest: string,
  importers: PartImporters,
): Promise<ImportedPackage> {
  await writeFile(join(tree, MANIFEST_FILE), manifest);
  return await importers.bytes(packTar(() => tree, await surveyFolder(tree)));
}

interface SkillsDraft {
  package_id: string;
  version: string;
  name: string;
  description: string;
  license: string;
  skills: readonly Skill[];
}

/** The manifest of a package that contains all skills of a plugin and runs nothing. */
export function buildSkillsManifest(draft: SkillsDraft): string {
  const { package_id, version, name, description, license, skills } = draft;
  return [
    ...formatTomlLines({ api_version: "vai.plugin.v1", package_id, version, name, description, license }),
    "",
    "[runtime]",
    ...formatTomlLines({ protocol: "skills", entrypoint: ["skills"] }),
    ...skills.flatMap((skill) => [
      "",
      "[[skills]]",
      ...formatTomlLines({ name: skill.name, description: skill.description, path: skill.path }),
    ]),
    "",
  ].join("\n");
}
