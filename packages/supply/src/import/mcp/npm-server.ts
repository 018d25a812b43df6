/**
 * An MCP server of the npm registry as one package: the whole dependency tree is resolved, locked and laid out first,
 * without running a line of it, and what is started later are these very bytes. The lock is part of them.
 */
import { lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix, relative, sep } from "node:path";
import { BackplaneError, PLUGIN_ENTRY_GROUP } from "@backplane/contract";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import { validateInstallSource } from "../../npm/install-source.ts";
import type { Npm } from "../../npm/npm-command.ts";
import { npmInstall } from "../../npm/npm-install.ts";
import { tarOf } from "../../pack/pack-folder.ts";
import { type FoundTree, findFiles, inTurns, readTreeFile } from "../../tree/read-tree.ts";
import { listTree } from "../../tree/tree-listing.ts";
import { packageIdOf, serverManifest } from "./server-manifest.ts";

/** npm's own notes, with times in them: the same tree must have the same digest. */
const LEFT_OUT = /(?:^|\/)node_modules\/(?:\.package-lock\.json|\.cache\/.*)$/;

/** The tar of the package; the folder it was made from is gone when it has been read. */
export async function* npmServer(
  npm: Npm,
  spec: string,
  secret_slots: readonly string[],
): AsyncGenerator<Uint8Array, void> {
  const source = validateInstallSource(spec);
  if (source.kind !== "npm") {
    throw new BackplaneError("plugin.source_invalid", `${spec} is no package name of the npm registry.`);
  }
  const made = await mkdtemp(join(tmpdir(), "backplane-npm-"));
  try {
    const dir = join(made, "tree");
    await mkdir(dir);
    await writeFile(join(dir, "package.json"), `${JSON.stringify({ name: "mcp-server", private: true })}\n`);
    await npmInstall(npm, dir, source);
    await writeFile(join(dir, MANIFEST_FILE), await manifestOf(dir, source.name, secret_slots));
    const all = await selfContained(dir, await findFiles(dir));
    const files = all.filter((path) => !LEFT_OUT.test(path));
    const listing = listTree(await inTurns(files, (path) => readTreeFile(dir, path)));
    yield* tarOf(() => dir, listing);
  } finally {
    await rm(made, { recursive: true, force: true });
  }
}

interface PackageJson {
  name?: unknown;
  version?: unknown;
  description?: unknown;
  license?: unknown;
  bin?: unknown;
  [group: string]: unknown;
}

async function manifestOf(dir: string, name: string, secret_slots: readonly string[]): Promise<string> {
  const home = join(dir, "node_modules", name);
  const about = JSON.parse(await readFile(join(home, "package.json"), "utf8")) as PackageJson;
  if (about[PLUGIN_ENTRY_GROUP] !== undefined) {
    throw unusable(name, "it is a kernel plugin", `backplane plugin install npm:${name} without arguments`);
  }
  const program = await programOf(dir, home, name, about.bin);
  const [publisher, short] = name.startsWith("@")
    ? (name.slice(1).split("/") as [string, string])
    : ["npm", name];
  return serverManifest({
    package_id: packageIdOf(publisher, short),
    version: text(about.version) ?? "0.0.0",
    name,
    ...optional("description", text(about.description)),
    ...optional("license", text(about.license)),
    source: `npm:${name}@${text(about.version) ?? ""}`,
    runtime: { protocol: "mcp.stdio", entrypoint: ["node", program] },
    secret_slots,
  });
}

const OTHER = "Name the package that the server's own instructions start with npx; a library is none.";

/** npx's rule: the only program, or the one that is named like the package. */
async function programOf(dir: string, home: string, name: string, bin: unknown): Promise<string> {
  const programs: [string, unknown][] =
    typeof bin === "string" ? [[name, bin]] : Object.entries((bin ?? {}) as Record<string, unknown>);
  const short = name.slice(name.lastIndexOf("/") + 1);
  const [, path] = programs.find(([each]) => each === short) ?? (programs.length === 1 ? programs[0]! : []);
  if (typeof path !== "string") {
    const which = programs.map(([each]) => each).join(", ");
    throw unusable(
      name,
      which === "" ? "it has no program to start" : `it has several programs: ${which}`,
      OTHER,
    );
  }
  const file = await realpath(join(home, path)).catch(() => null);
  const root = await realpath(dir);
  if (file === null || !file.startsWith(root + sep)) throw unusable(name, `its program ${path} is not in it`);
  return `./${posix.join(...relative(root, file).split(sep))}`;
}

/** A link or a device would make the package depend on what is not in it. An empty folder is nothing. */
async function selfContained(dir: string, { files, oddities }: FoundTree): Promise<string[]> {
  for (const path of oddities) {
    if ((await lstat(join(dir, path))).isDirectory()) continue;
    throw unusable(path, "it is neither a file nor a folder");
  }
  return files;
}

function optional<K extends string>(key: K, value: string | undefined): { [P in K]?: string } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: string };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function unusable(name: string, why: string, fix?: string): BackplaneError {
  const message = `${name} cannot be installed as an MCP server: ${why}.`;
  return new BackplaneError("package.invalid", message, fix === undefined ? {} : { fix });
}
