/**
 * Decides what `plugin install SOURCE` installs: an Agent Plugins folder, a package (a folder with a manifest, or an
 * archive), a file of MCP servers, a folder of kernel plugins, example:NAME, a package in an OCI registry, pypi:NAME,
 * image:NAME, marketplace:ID, or npm:NAME, whose kind the gateway determines. Nothing without such a prefix is
 * downloaded, so a mistyped folder never installs a package of that name.
 */
import { accessSync, constants, existsSync, readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { BackplaneError, isObject, type JsonObject, PLUGIN_ENTRY_GROUP } from "@backplane/contract";

export type PluginSource =
  | { kind: "package"; path: string; is_folder: boolean }
  /** An mcp.json. */
  | { kind: "mcp"; path: string }
  /** A folder with a plugin.json, which holds servers and skills. */
  | { kind: "agent-plugin"; path: string }
  /** A folder whose package.json declares kernel plugins. */
  | { kind: "kernel"; source: string }
  /** An MCP server or a kernel plugin from the npm registry, with an optional version. */
  | { kind: "npm"; spec: string }
  /** An MCP server from the Python package index. */
  | { kind: "pypi"; spec: string }
  /** An MCP server in a container image. */
  | { kind: "image"; reference: string }
  | { kind: "oci"; reference: string }
  /** An entry of the marketplace. */
  | { kind: "marketplace"; id: string };

const MANIFEST = "vai-plugin.toml";
const EXAMPLE = "example:";
const MARKETPLACE = "marketplace:";
/** A file name with one of these extensions is treated as a path, not as an npm name. */
const FILE_NAME = /\.(tgz|tar|tar\.gz|zip|jar|json|toml|ts|js)$/;
const NPM_NAME = /^(?:@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*(?:@[^/@\s]+)?$/;

export function readPluginSource(cwd: string, text: string): PluginSource {
  if (text.startsWith("npm:")) return { kind: "npm", spec: text.slice("npm:".length) };
  if (text.startsWith("image:")) return { kind: "image", reference: text.slice("image:".length) };
  if (text.startsWith("pypi:")) return { kind: "pypi", spec: text.slice("pypi:".length) };
  if (text.startsWith("oci://")) return { kind: "oci", reference: text };
  if (text.startsWith(MARKETPLACE)) return { kind: "marketplace", id: text.slice(MARKETPLACE.length) };
  if (text.startsWith(EXAMPLE)) return readPluginSource(cwd, findExampleFolder(text.slice(EXAMPLE.length)));
  const path = resolve(cwd, text);
  if (!existsSync(path) && NPM_NAME.test(text) && !FILE_NAME.test(text)) throw sourceNotFoundError(text);
  const is_folder = statSource(path, text).isDirectory();
  if (!is_folder && path.endsWith(".json")) return { kind: "mcp", path };
  if (is_folder && !existsSync(join(path, MANIFEST)) && declaresKernelPlugins(path))
    return { kind: "kernel", source: path };
  if (is_folder && !existsSync(join(path, MANIFEST)) && isAgentPlugin(path))
    return { kind: "agent-plugin", path };
  return { kind: "package", path, is_folder };
}

/** The examples that come with Backplane: inside the published package, or at the root of the repository. */
export function findExamplesFolder(): string | undefined {
  return ["../../examples/", "../../../../examples/"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((folder) => existsSync(folder));
}

function findExampleFolder(name: string): string {
  const root = findExamplesFolder();
  const names = root === undefined ? [] : readdirSync(root, { withFileTypes: true });
  const example = names.find((entry) => entry.isDirectory() && entry.name === name);
  if (root !== undefined && example !== undefined) return join(root, example.name);
  const known = names.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  throw new BackplaneError("cli.usage", `${name} is not an example.`, {
    fix: `Use one of: ${known.map((each) => `${EXAMPLE}${each}`).join(", ")}`,
  });
}

/** Only the form is checked here; the gateway reads the servers. */
export function readMcpFile(path: string): { document: JsonObject; file: string } {
  const file = basename(path);
  let document: unknown;
  try {
    document = JSON.parse(readFileSync(path, "utf8").replace(/^\ufeff/, ""));
  } catch (error) {
    throw invalidFileError(`${file} is not valid JSON: ${(error as Error).message.split("\n")[0]}.`);
  }
  if (!isObject(document)) throw invalidFileError(`${file} has no "mcpServers".`);
  return { document: document as JsonObject, file };
}

function invalidFileError(message: string): BackplaneError {
  return new BackplaneError("package.invalid", message);
}

/** Tool files and instrument plugins describe themselves and are bound when they are installed. */
export function bindsAutomatically({ path, is_folder }: { path: string; is_folder: boolean }): boolean {
  if (!is_folder) return /\.(jar|zip)$/.test(path);
  const contains = (name: string) => existsSync(join(path, name));
  return !contains(MANIFEST) && (contains("tools") || contains("META-INF/hefty-plugin.json"));
}

export function statSource(path: string, label: string): Stats {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path);
  } catch {
    throw pluginSourceError(label, "does not exist or cannot be read");
  }
}

export function pluginSourceError(label: string, reason: string): BackplaneError {
  return new BackplaneError("cli.usage", `${label} ${reason}.`, {
    fix: "Use a folder, a .tgz, .zip or .jar file, an mcp.json, oci://HOST/NAME:TAG, npm:NAME, pypi:NAME, image:NAME or example:NAME. See: backplane plugin install --help",
  });
}

function sourceNotFoundError(text: string): BackplaneError {
  return new BackplaneError("cli.usage", `${text} does not exist or cannot be read.`, {
    fix: `Correct the path. To install the npm package of that name: backplane plugin install npm:${text}`,
  });
}

function isAgentPlugin(folder: string): boolean {
  try {
    const json = JSON.parse(readFileSync(join(folder, "plugin.json"), "utf8")) as Record<string, unknown>;
    return typeof json.$schema === "string" && json.$schema.startsWith("https://agent-plugins.org/");
  } catch {
    return false;
  }
}

function declaresKernelPlugins(folder: string): boolean {
  try {
    const json = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, unknown>;
    return json[PLUGIN_ENTRY_GROUP] !== undefined;
  } catch {
    return false;
  }
}
