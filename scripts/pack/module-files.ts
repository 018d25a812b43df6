/**
 * The files of one module of this repository as an npm package: its assets and the files that the build produced,
 * without TypeScript sources and maps.
 */
import { globSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { build } from "esbuild";
import type { PackedFile } from "./tarball.ts";

export interface Manifest {
  name: string;
  version: string;
  exports?: Record<string, string | { types: string; default: string }>;
  dependencies?: Record<string, string>;
  [field: string]: unknown;
}

/** Files that a module reads from its own folder while it runs. */
const ASSETS: Record<string, string[]> = {
  "@backplane/api": ["static/**", "dist/explorer/*", "dist/console/*.{html,js,css,md}"],
  "@backplane/authoring": ["templates/**"],
  "@backplane/cli": ["bin/*", "dist/main.js", "dist/heap/small-heap.js"],
  "@backplane/runner": ["sandbox-init/**"],
  "@backplane/sdk": ["java/**", "python/*.py", "shell/*.sh", "dist/*.mjs"],
};
/** Programs of worker threads. Each becomes one file that imports only packages. */
const THREADS: Record<string, string[]> = {
  "@backplane/store": ["dist/sqlite/writer/writer-worker.js", "dist/sqlite/damage/check-thread.js"],
  "@backplane/supply": ["dist/schemas/schema-worker.js"],
};
/** Large client libraries. A plugin contains only the small part of them that it uses. */
const INLINED = ["openai", "@anthropic-ai/sdk"];
/** Optional peers of the inlined libraries, which we do not use. */
const NEVER_INSTALLED = ["@aws-sdk/*", "@smithy/*", "google-auth-library", "undici", "ws", "zod"];
/** Fields that are used only in a clone. */
const CLONE_FIELDS = ["private", "scripts", "devDependencies"];

export interface ModuleFiles {
  manifest: Manifest;
  files: PackedFile[];
  /** Folders of the libraries that are partly bundled into the module. */
  inlined: string[];
}

export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

export async function readModule(folder: string, options: { types: boolean }): Promise<ModuleFiles> {
  const source = readManifest(folder);
  const inlined_names = INLINED.filter((name) => source.dependencies?.[name] !== undefined);
  const manifest = publishedManifest(source, options.types, inlined_names);
  const assets = [...new Set((ASSETS[source.name] ?? []).flatMap((pattern) => listFiles(folder, pattern)))];
  const threads = await bundleThreads(folder, THREADS[source.name] ?? []);
  const code =
    inlined_names.length > 0
      ? await bundlePlugin(folder)
      : { files: builtFiles(folder, source, options.types), inlined: [] };
  const files = [...assets.map((path) => withoutMap(readPacked(folder, path))), ...threads, ...code.files];
  return { manifest, files: [...files, jsonFile("package.json", manifest)], inlined: code.inlined };
}

function publishedManifest(source: Manifest, types: boolean, inlined: readonly string[]): Manifest {
  const manifest: Manifest = { ...source };
  for (const field of CLONE_FIELDS) delete manifest[field];
  if (source.exports !== undefined) {
    manifest.exports = Object.fromEntries(
      Object.entries(source.exports).map(([path, target]) => {
        if (typeof target === "string") return [path, target];
        return [path, types ? { types: target.types, default: target.default } : target.default];
      }),
    );
  }
  const dependencies = Object.entries(source.dependencies ?? {}).filter(([name]) => !inlined.includes(name));
  if (source.dependencies !== undefined) manifest.dependencies = Object.fromEntries(dependencies);
  return manifest;
}

/**
 * If all exports of the package are bundles, only the bundles are packed; otherwise every file that the compiler
 * wrote.
 */
function builtFiles(folder: string, { exports = {} }: Manifest, types: boolean): PackedFile[] {
  const targets = Object.values(exports).map((target) =>
    typeof target === "string" ? target : target.default,
  );
  const bundled = targets.length > 0 && targets.every((target) => target.startsWith("./dist/lib/"));
  const code = listFiles(folder, bundled ? "dist/lib/*.js" : "dist/**/*.js");
  const declarations = types ? listFiles(folder, "dist/**/*.d.ts") : [];
  return [...code, ...declarations].map((path) => withoutMap(readPacked(folder, path)));
}

async function bundleThreads(folder: string, entries: readonly string[]): Promise<PackedFile[]> {
  if (entries.length === 0) return [];
  const { outputFiles } = await build({
    entryPoints: entries.map((path) => join(folder, path)),
    outbase: join(folder, "dist"),
    outdir: join(folder, "dist"),
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    write: false,
    logLevel: "error",
  });
  return outputFiles.map(({ path, text }) => textFile(relative(folder, path), text));
}

async function bundlePlugin(folder: string): Promise<{ files: PackedFile[]; inlined: string[] }> {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(folder, "dist/plugin.js")],
    outdir: join(folder, "dist"),
    absWorkingDir: folder,
    bundle: true,
    splitting: true,
    chunkNames: "shared-[hash]",
    external: ["@backplane/*", ...NEVER_INSTALLED],
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node20",
    legalComments: "none",
    write: false,
    logLevel: "error",
  });
  const inlined = Object.keys(metafile.inputs).flatMap((input) => {
    const [, library] = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(join(folder, input)) ?? [];
    return library === undefined ? [] : [library];
  });
  const files = outputFiles.map(({ path, text }) => textFile(relative(folder, path), text));
  return { files, inlined: [...new Set(inlined)].sort() };
}

export function listFiles(folder: string, pattern: string): string[] {
  return globSync(pattern, { cwd: folder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

export function readPacked(folder: string, path: string): PackedFile {
  const file = join(folder, path);
  return { path, bytes: readFileSync(file), executable: (statSync(file).mode & 0o100) !== 0 };
}

export function textFile(path: string, text: string): PackedFile {
  return { path, bytes: Buffer.from(text), executable: false };
}

/** The maps are not packed, so the code does not refer to them. */
export function withoutMap(file: PackedFile): PackedFile {
  if (!/\.(?:[cm]?js|d\.ts)$/.test(file.path)) return file;
  const code = Buffer.from(file.bytes).toString("utf8");
  return { ...file, bytes: Buffer.from(code.replace(/^\/\/# sourceMappingURL=.*$\n?/gm, "")) };
}

export function jsonFile(path: string, value: unknown): PackedFile {
  return textFile(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** Returns the same files inside a folder of the archive. */
export function moveInto(folder: string, files: readonly PackedFile[]): PackedFile[] {
  return files.map((file) => ({ ...file, path: `${folder}/${file.path}` }));
}
