/**
 * An Agent Plugins folder or archive on its way in: unpacked like a stranger's, read, and then imported part by part. Each
 * server is a package of its own and all skills are one; a server of npm comes from the registry, the others get a manifest
 * and the plugin's files.
 */
import { lstat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, type Skill } from "@backplane/contract";
import type { AgentPluginPart, ImportedPackage, OpenedAgentPlugin } from "@backplane/ports";
import type { UnpackLimits } from "../../archive/limits.ts";
import { unpackArchive } from "../../archive/unpack-archive.ts";
import type { ContentStore } from "../../content/content-store.ts";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import { tomlLines } from "../../manifest/toml-text.ts";
import { tarOf } from "../../pack/pack-folder.ts";
import { surveyFolder } from "../../pack/survey-folder.ts";
import { listTree } from "../../tree/tree-listing.ts";
import type { McpServerEntry } from "../mcp/mcp-json.ts";
import { serverBinding } from "../mcp/server-binding.ts";
import { packageIdOf, type ServerDraft, serverManifest } from "../mcp/server-manifest.ts";
import { AGENT_PLUGIN_SCHEMA, type AgentPlugin, readAgentPlugin } from "./read-agent-plugin.ts";

/** How the parts come in: what the importer does with any other package. */
export interface PartImport {
  npm(spec: string, secret_slots: readonly string[]): Promise<ImportedPackage>;
  bytes(bytes: AsyncIterable<Uint8Array>): Promise<ImportedPackage>;
}

export async function openAgentPlugin(
  bytes: AsyncIterable<Uint8Array>,
  store: ContentStore,
  limits: UnpackLimits,
  into: PartImport,
): Promise<OpenedAgentPlugin> {
  const staging = await store.stage();
  try {
    await unpackArchive(bytes, staging.tree, limits);
    const plugin = await read(staging.tree);
    const { name, version, servers, skills, left_out, notes } = plugin;
    const parts: (AgentPluginPart & { take: () => Promise<ImportedPackage> })[] = servers.map((server) => ({
      kind: "server",
      name: server.name,
      registry: server.from.kind === "npm",
      binding: serverBinding(server),
      take: () => takeServer(plugin, server, staging.tree, into),
    }));
    if (skills.length > 0)
      parts.push({
        kind: "skill",
        name: "skills",
        registry: false,
        binding: {},
        take: () => takeSkills(plugin, staging.tree, into),
      });
    return {
      name,
      version,
      left_out,
      notes,
      parts,
      import: (part) => parts.find((one) => one === part)!.take(),
      end: () => staging.end(),
    };
  } catch (error) {
    await staging.end();
    throw error;
  }
}

async function read(tree: string): Promise<AgentPlugin> {
  // A package of ours says itself what it is, and the manifests of the parts would stand in its place.
  if ((await lstat(join(tree, MANIFEST_FILE)).catch(() => null)) !== null)
    throw new BackplaneError(
      "package.invalid",
      `It holds a ${MANIFEST_FILE}, so it is a package by itself.`,
      {
        fix: "Install it as a package: backplane plugin install, or POST /v1/plugin-packages",
      },
    );
  const plugin = await readAgentPlugin(tree);
  if (plugin === null)
    throw new BackplaneError("package.invalid", "Its plugin.json is not one of Agent Plugins 1.x.", {
      fix: `Write "$schema": "${AGENT_PLUGIN_SCHEMA}" into it.`,
    });
  return plugin;
}

async function takeServer(
  { name: publisher, version }: AgentPlugin,
  { name, from, secret_slots }: McpServerEntry,
  tree: string,
  into: PartImport,
): Promise<ImportedPackage> {
  if (from.kind === "npm") return await into.npm(from.spec, secret_slots);
  const runtime: ServerDraft["runtime"] =
    from.kind === "http"
      ? { protocol: "mcp.http", url: from.url }
      : { protocol: "mcp.stdio", entrypoint: [from.command] };
  const package_id = packageIdOf(publisher, name);
  const manifest = serverManifest({ package_id, version, name, runtime, secret_slots });
  return await into.bytes(await packed(tree, manifest, from.kind === "files"));
}

async function takeSkills(
  { name, version, description, license, skills }: AgentPlugin,
  tree: string,
  into: PartImport,
): Promise<ImportedPackage> {
  const package_id = packageIdOf(name, "skills");
  const manifest = skillsManifest({ package_id, version, name, description, license, skills });
  return await into.bytes(await packed(tree, manifest, true));
}

/** The manifest alone, or with all that the plugin holds. One part after the other: they share the place. */
async function packed(tree: string, manifest: string, files: boolean): Promise<AsyncIterable<Uint8Array>> {
  await writeFile(join(tree, MANIFEST_FILE), manifest);
  const found = await surveyFolder(tree);
  return tarOf(
    () => tree,
    files ? found : listTree(found.files.filter(({ path }) => path === MANIFEST_FILE)),
  );
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
export function skillsManifest({ skills, ...about }: SkillsDraft): string {
  return [
    ...tomlLines({ api_version: "vai.plugin.v1", ...about }),
    "",
    "[runtime]",
    ...tomlLines({ protocol: "skills", entrypoint: ["skills"] }),
    ...skills.flatMap(({ name, description, path }) => [
      "",
      "[[skills]]",
      ...tomlLines({ name, description, path }),
    ]),
    "",
  ].join("\n");
}
