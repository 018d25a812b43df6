/**
 * Packs the packages that are published to npm into `dist/`: `backplane` (the command and the gateway),
 * `@backplane/sdk` (for authors) and one package with Node for each platform. The reasons are in
 * docs/decisions/0024-published-packages.md.
 *
 *   npm run pack                               for this platform
 *   npm run pack -- --all-platforms            for all platforms; downloads Node for the others and checks its integrity
 *   npm run pack -- --repository git+https://… with the repository, which npm needs for provenance
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { readInstalled } from "./pack/installed-files.ts";
import {
  jsonFile,
  listFiles,
  type Manifest,
  type ModuleFiles,
  moveInto,
  readManifest,
  readModule,
  readPacked,
  textFile,
} from "./pack/module-files.ts";
import { readNodePackage } from "./pack/node-binary.ts";
import { createTarball, type PackedFile } from "./pack/tarball.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SCOPE = "@backplane/";
const CLI = "@backplane/cli";
const SDK = "@backplane/sdk";
/** npm links only programs of the package itself, but the real launcher belongs to a bundled module. */
const LAUNCHER = `#!/usr/bin/env node
"use strict";
require("../node_modules/@backplane/cli/bin/backplane.cjs").launch();
`;
const SIGNER = `#!/usr/bin/env node
"use strict";
require("../node_modules/@backplane/cli/bin/vai-plugin-sign.cjs");
`;
const KEYWORDS = ["agent", "ai", "gateway", "mcp", "plugins", "sandbox", "tools"];

export interface PackOptions {
  /** The folder that the archives are written to. */
  to: string;
  all_platforms?: boolean;
  repository?: string;
}

export interface PackedPackage {
  name: string;
  version: string;
  file: string;
  manifest: object;
}

export async function packAll(options: PackOptions): Promise<PackedPackage[]> {
  const root = readManifest(ROOT);
  const nodes = readNodePackages(root, options.all_platforms === true);
  const versions = Object.fromEntries(listNodePackages(root).map(({ name, version }) => [name, version]));
  const all = [await packGateway(root, versions, options), await packSdk(root, options)];
  mkdirSync(options.to, { recursive: true });
  for (const file of globSync("*.tgz", { cwd: options.to })) rmSync(join(options.to, file));
  const packed: PackedPackage[] = [];
  for (const files of [...all, ...nodes.map((node) => node.files)]) {
    const manifest = JSON.parse(
      Buffer.from(files.find(({ path }) => path === "package.json")!.bytes).toString(),
    ) as Manifest;
    const { name, version } = manifest;
    const file = join(options.to, `${name.replace("@", "").replace("/", "-")}-${version}.tgz`);
    writeFileSync(file, await createTarball(files));
    packed.push({ name, version, file, manifest });
  }
  return packed;
}

/** One package that contains every module and library, so that the installed tree is the one that was tested. */
async function packGateway(
  root: Manifest,
  node_versions: Record<string, string>,
  options: PackOptions,
): Promise<PackedFile[]> {
  const modules = await readModules(CLI, false);
  const manifest = {
    name: "backplane",
    version: root.version,
    description: root.description,
    keywords: KEYWORDS,
    license: root.license,
    ...repositoryOf(options),
    type: "commonjs",
    engines: root.engines,
    bin: { backplane: "bin/backplane.cjs", "vai-plugin-sign": "bin/vai-plugin-sign.cjs" },
    files: ["bin", "LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY-NOTICES"],
    dependencies: { [CLI]: root.version },
    optionalDependencies: node_versions,
    bundleDependencies: [CLI],
  };
  const libraries = new Set(modules.flatMap(({ manifest }) => listLibraries(manifest)));
  return [
    jsonFile("package.json", manifest),
    ...readDocuments(["LICENSE", "README.md", "CHANGELOG.md"]),
    textFile("THIRD-PARTY-NOTICES", renderNotices(modules.flatMap(({ inlined }) => inlined))),
    { ...textFile("bin/backplane.cjs", LAUNCHER), executable: true },
    { ...textFile("bin/vai-plugin-sign.cjs", SIGNER), executable: true },
    ...modules.flatMap(({ manifest: { name }, files }) => moveInto(`node_modules/${name}`, files)),
    ...moveInto(`node_modules/${CLI}`, readExamples()),
    ...readInstalled(ROOT, libraries),
  ];
}

/**
 * The SDK with the two modules that it consists of, which are not published on their own. The types of these modules
 * need zod. The SDK's own library (jiti) is not a dependency, because the host program for tool files contains it.
 */
async function packSdk(root: Manifest, options: PackOptions): Promise<PackedFile[]> {
  const [sdk, ...parts] = await readModules(SDK, true);
  const { name, version, dependencies: _libraries, ...fields } = sdk!.manifest;
  const names = parts.map((part) => part.manifest.name).sort();
  const libraries = Object.assign({}, ...parts.map((part) => part.manifest.dependencies ?? {})) as object;
  const manifest = {
    name,
    version,
    description: "Write plugins for Backplane in TypeScript",
    license: root.license,
    ...repositoryOf(options),
    engines: root.engines,
    files: ["dist", "java", "python", "shell", "LICENSE", "README.md"],
    ...fields,
    dependencies: { ...libraries, ...Object.fromEntries(names.map((each) => [each, version])) },
    bundleDependencies: names,
  };
  return [
    ...sdk!.files.filter(({ path }) => path !== "package.json" && !path.startsWith("dist/host/tool-files/")),
    jsonFile("package.json", manifest),
    ...readDocuments(["LICENSE"]),
    readPacked(join(ROOT, "packages/sdk"), "README.md"),
    ...parts.flatMap((part) => moveInto(`node_modules/${part.manifest.name}`, part.files)),
  ];
}

/** Returns the first module and every module of the repository that it needs, in this order. */
async function readModules(first: string, types: boolean): Promise<ModuleFiles[]> {
  const folders = new Map(
    globSync(["packages/*/package.json", "plugins/*/package.json"], { cwd: ROOT }).map((file) => {
      const folder = join(ROOT, file, "..");
      return [readManifest(folder).name, folder] as const;
    }),
  );
  const names = [first];
  for (const name of names) {
    const { dependencies = {} } = readManifest(folders.get(name)!);
    names.push(
      ...Object.keys(dependencies).filter((each) => each.startsWith(SCOPE) && !names.includes(each)),
    );
  }
  return await Promise.all(names.map((name) => readModule(folders.get(name)!, { types })));
}

const listLibraries = ({ dependencies = {} }: Manifest) =>
  Object.keys(dependencies).filter((name) => !name.startsWith(SCOPE));

/** The examples, which the source `example:NAME` installs. The build has generated their programs. */
function readExamples(): PackedFile[] {
  return listFiles(ROOT, "examples/*/{*,{bin,lib,schemas,src,tools,META-INF}/**}")
    .filter((path) => !path.includes("__pycache__"))
    .map((path) => readPacked(ROOT, path));
}

function readDocuments(names: readonly string[]): PackedFile[] {
  return names.map((name) => ({ ...readPacked(ROOT, name), executable: false }));
}

/** The licenses of the libraries whose code is part of a bundle; every other library has its own license file. */
function renderNotices(folders: readonly string[]): string {
  const parts = [...new Set(folders)].sort().map((folder) => {
    const { name, version, license } = readManifest(folder);
    const [file] = listFiles(folder, "LICEN[CS]E*");
    const text =
      file === undefined ? `License: ${String(license)}` : readFileSync(join(folder, file), "utf8");
    return `${name} ${version}\n\n${text.trim()}\n`;
  });
  return `This package contains parts of these libraries.\n\n${parts.join("\n----\n\n")}`;
}

function repositoryOf({ repository }: PackOptions): object {
  return repository === undefined ? {} : { repository: { type: "git", url: repository } };
}

/** One npm package with Node, as it is published. */
interface NodePackageName {
  /** The package with the same build of Node that a clone installs. */
  source: string;
  name: string;
  version: string;
}

function listNodePackages(root: Manifest): NodePackageName[] {
  const versions = root.optionalDependencies as Record<string, string>;
  return Object.entries(versions).map(([source, version]) => {
    const [os, cpu] = source.split("-").slice(-2) as [string, string];
    return { source, version, name: `${SCOPE}node-${os === "win" ? "win32" : os}-${cpu}` };
  });
}

function readNodePackages(root: Manifest, all_platforms: boolean) {
  const host_package = `${SCOPE}node-${process.platform}-${process.arch}`;
  return listNodePackages(root)
    .filter(({ name }) => all_platforms || name === host_package)
    .map(({ source, version }) => readNodePackage(ROOT, source, version));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      "all-platforms": { type: "boolean", default: false },
      repository: { type: "string" },
      to: { type: "string", default: join(ROOT, "dist") },
    },
  });
  const { to, repository } = values;
  const all_platforms = values["all-platforms"];
  for (const { file } of await packAll({ to, all_platforms, ...(repository && { repository }) }))
    console.log(join(basename(to), basename(file)));
}
