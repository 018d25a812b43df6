/**
 * Reads an Agent Plugins 1.0 folder: `plugin.json`, and optionally `mcp.json` and `skills/`. As the format requires, a
 * plugin with an invalid manifest is refused, an invalid `mcp.json` leaves out all servers, and of the servers and
 * skills only the invalid ones are left out. Everything that is left out is reported.
 */
import { lstat, readdir, readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { BackplaneError, isObject, type LeftOut, type Skill, toLeftOut } from "@backplane/contract";
import { type McpServerEntry, readMcpServer, readServers } from "../mcp/mcp-json.ts";
import { readFrontMatter } from "./front-matter.ts";

export const AGENT_PLUGIN_FILE = "plugin.json";
/** The schema for new plugins; every 1.x is accepted. */
export const AGENT_PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

export interface AgentPlugin {
  name: string;
  version: string;
  description: string;
  license: string;
  servers: McpServerEntry[];
  skills: Skill[];
  /** Servers and skills that cannot be used. */
  left_out: LeftOut[];
  /** Notes about other ignored parts. */
  notes: string[];
}

type Fields = Record<string, unknown>;

const SCHEMA = /^https:\/\/agent-plugins\.org\/schemas\/1\.\d+\.\d+\/plugin\.schema\.json$/;
const NAME = /^(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$/;
const SEMVER = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/;
const KNOWN_FIELDS = [
  "$schema",
  "name",
  "version",
  "description",
  "author",
  "homepage",
  "repository",
  "license",
  "keywords",
  "extensions",
];
const PLUGIN_ROOT_CWD = /^(?:\$\{PLUGIN_ROOT\}|\.)\/?$/;
const MAX_FILE_BYTES = 1024 * 1024;
/** The values of the placeholders in the sandbox: the folder of the package, and the only writable folder. */
const ROOT = ".";
const DATA = "/sandbox/scratch";

/** Null if the `plugin.json` of the folder is not an Agent Plugins manifest. Throws package.invalid. */
export async function readAgentPlugin(folder: string): Promise<AgentPlugin | null> {
  const manifest = parseObject(await readText(join(folder, AGENT_PLUGIN_FILE)), AGENT_PLUGIN_FILE);
  if (typeof manifest.$schema !== "string" || !SCHEMA.test(manifest.$schema)) return null;
  const { name, version, description, license } = manifest;
  if (typeof name !== "string" || !NAME.test(name))
    throw invalid(
      `The name in ${AGENT_PLUGIN_FILE} must have 1 to 64 characters: a-z, 0-9, hyphens and dots`,
    );
  for (const [field, value] of Object.entries({ version, description, license }))
    if (value !== undefined && typeof value !== "string")
      throw invalid(`${field} in ${AGENT_PLUGIN_FILE} must be a string`);
  const notes = Object.keys(manifest)
    .filter((field) => !KNOWN_FIELDS.includes(field))
    .map(
      (field) =>
        `${AGENT_PLUGIN_FILE} has the field ${field.slice(0, 64)}, which 1.0 does not define; it is ignored.`,
    );
  const left_out: LeftOut[] = [];
  return {
    name,
    version: typeof version === "string" && SEMVER.test(version) ? version : "0.0.0",
    description: typeof description === "string" ? description : "",
    license: typeof license === "string" ? license : "",
    servers: await readPluginServers(folder, left_out),
    skills: await readPluginSkills(folder, left_out),
    left_out,
    notes,
  };
}

async function readPluginServers(folder: string, left_out: LeftOut[]): Promise<McpServerEntry[]> {
  const info = await lstat(join(folder, "mcp.json")).catch(() => null);
  if (info === null) return [];
  let servers: unknown;
  try {
    if (!info.isFile()) throw invalid("mcp.json is not a file");
    servers = parseObject(await readText(join(folder, "mcp.json")), "mcp.json").mcpServers;
    if (!isObject(servers)) throw invalid('mcp.json has no "mcpServers"');
  } catch (error) {
    left_out.push(toLeftOut("server", "mcp.json", error));
    return [];
  }
  const read = readServers(servers as Fields, (name, settings) => readPluginServer(name, settings, folder));
  left_out.push(...read.left_out);
  return read.servers;
}

function readPluginServer(name: string, settings: unknown, folder: string): McpServerEntry {
  if (!isObject(settings)) throw invalid("its entry is not an object");
  if (settings.type === "sse") throw invalid("the SSE transport is not supported");
  const { cwd = ".", ...rest } = settings;
  const { command } = rest;
  if (typeof command !== "string") return readMcpServer(name, settings);
  if (typeof cwd !== "string" || !PLUGIN_ROOT_CWD.test(cwd))
    throw invalid("it starts in a folder other than the plugin's, which is not supported");
  const expanded = expandPlaceholders(rest) as { command: string; args?: string[] };
  const program = posix.normalize(expanded.command);
  // readMcpServer refuses every path, because it would name a file of this machine. A program in the plugin is passed
  // to it as `node`, and the real command is restored below.
  const stand_in = { ...expanded, command: expanded.command.includes("/") ? "node" : expanded.command };
  const entry = readMcpServer(name, stand_in);
  if (entry.from.kind !== "command") return entry;
  if (expanded.command.includes("/") && (program.startsWith("../") || posix.isAbsolute(program)))
    throw invalid("its command is outside the plugin");
  const file = expanded.command.includes("/") ? `./${program}` : expanded.command;
  return { ...entry, from: { kind: "files", folder, command: file } };
}

/** Expands placeholders once; an expansion is not expanded again. */
function expandPlaceholders(value: unknown): unknown {
  if (typeof value === "string")
    return value.replace(/\$\{PLUGIN_(ROOT|DATA)\}/g, (_whole, which) => (which === "ROOT" ? ROOT : DATA));
  if (Array.isArray(value)) return value.map(expandPlaceholders);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, expandPlaceholders(child)]));
}

async function readPluginSkills(folder: string, left_out: LeftOut[]): Promise<Skill[]> {
  const entries = await readdir(join(folder, "skills"), { withFileTypes: true }).catch(() => []);
  const skills: Skill[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (!entry.isDirectory()) continue;
    try {
      skills.push(await readPluginSkill(folder, entry.name));
    } catch (error) {
      left_out.push(toLeftOut("skill", entry.name, error));
    }
  }
  return skills;
}

async function readPluginSkill(folder: string, name: string): Promise<Skill> {
  const path = `skills/${name}`;
  const fields = await readFrontMatter(await readText(join(folder, path, "SKILL.md"))).catch(
    (error: Error) => {
      throw invalid(error.message);
    },
  );
  if (fields === null) throw invalid("its SKILL.md does not begin with front matter");
  const { description } = fields;
  if (fields.name !== name) throw invalid(`the name in its SKILL.md is not ${name}`);
  if (name.length > 64 || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name))
    throw invalid("its name must consist of a-z, 0-9 and single hyphens");
  const trimmed = typeof description === "string" ? description.trim() : "";
  if (trimmed === "" || trimmed.length > 1_024)
    throw invalid("its description must have 1 to 1024 characters");
  return { name, description: trimmed, path };
}

async function readText(file: string): Promise<string> {
  const info = await lstat(file).catch(() => null);
  if (info?.isFile() !== true) throw invalid(`${file.split("/").at(-1)} is missing`);
  if (info.size > MAX_FILE_BYTES)
    throw invalid(`${file.split("/").at(-1)} is larger than ${MAX_FILE_BYTES} bytes`);
  return await readFile(file, "utf8");
}

function parseObject(json: string, file: string): Fields {
  try {
    const value: unknown = JSON.parse(json);
    if (isObject(value)) return value;
  } catch (error) {
    throw invalid(`${file} is not valid JSON: ${(error as Error).message.split("\n")[0]}`);
  }
  throw invalid(`${file} is not a JSON object`);
}

function invalid(problem: string): BackplaneError {
  return new BackplaneError("package.invalid", `${problem}.`);
}
