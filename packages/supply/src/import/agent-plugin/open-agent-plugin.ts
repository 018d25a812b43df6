/**
 * Imports an Agent Plugins folder or archive part by part, after unpacking it like any untrusted archive. Each server
 * becomes a package of its own, and all skills together become one. A server from npm is installed from the registry; the
 * others get a manifest and the files of the plugin.
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

/** Imports a part like any other package. */
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
    const parts: (AgentPluginPart & { importPart: () => Promise<ImportedPackage> })[] = servers.map(
      (server) => ({
        kind: "server",
        name: server.name,
        registry: server.from.kind === "npm",
        binding: serverBinding(server),
        importPart: () => importServer(plugin, server, staging.tree, into),
      }),
    );
    if (skills.length > 0)
      parts.push({
        kind: "skill",
        name: "skills",
        registry: false,
        binding: {},
        importPart: () => importSkills(plugin, staging.tree, into),
      });
    return {
      name,
      version,
      left_out,
      notes,
      parts,
      import: (part) => parts.find((one) => one === part)!.importPart(),
      end: () => staging.end(),
    };
  } catch (error) {
    await staging.end();
    throw error;
  }
}

async function read(tree: string): Promise<AgentPlugin> {
  // A package with its own manifest is installed as it is; the manifests of the parts would replace that manifest.
  if ((await lstat(join(tree, MANIFEST_FILE)).catch(() => null)) !== null)
    throw new BackplaneError(
      "package.invalid",
      `It contains a ${MANIFEST_FILE}, so it is already a package.`,
      {
        fix: "Install it as a package: backplane plugin install, or POST /v1/plugin-packages",
      },
    );
  const plugin = await readAgentPlugin(tree);
  if (plugin === null)
    throw new BackplaneError("package.invalid", "Its plugin.json is not an Agent Plugins 1.x manifest.", {
      fix: `Write "$schema": "${AGENT_PLUGIN_SCHEMA}" into it.`,
    });
  return plugin;
}

async function importServer(
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
  return await into.bytes(await packPart(tree, manifest, from.kind === "files"));
}

async function importSkills(
  { name, version, description, license, skills }: AgentPlugin,
  tree: string,
  into: PartImport,
): Promise<ImportedPackage> {
  const package_id = packageIdOf(name, "skills");
  const manifest = skillsManifest({ package_id, version, name, description, license, skills });
  return await into.bytes(await packPart(tree, manifest, true));
}

/** The manifest alone, or with all files of the plugin. Parts must be packed one after the other: they share the file. */
async function packPart(tree: string, manifest: string, files: boolean): Promise<AsyncIterable<Uint8Array>> {
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
