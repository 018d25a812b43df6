/**
 * Bundles each package of the gateway and each bundled plugin into one file per entry, because reading 700 small
 * modules took most of the start time. The package names and entries stay the same, so an import by name gets the
 * same module. The bundles of the command (cli) and of each worker thread also contain the packages and
 * libraries that they import, so a start resolves and reads only about ten files. Files that a module reads from
 * its own folder (threads, pages, C sources) are still found where tsc puts them.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build, type OutputFile, type Plugin } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The package of the command, which nothing imports. */
const COMMAND = "cli";
const PACKAGE_NAMES = [
  COMMAND,
  "contract",
  "wire",
  "ports",
  "registry",
  "session",
  "door",
  "servers",
  "agent",
  "kernel",
  "runner",
  "store",
  "supply",
  "api",
  "gateway",
  "authoring",
];
/** Programs of worker threads, as paths below `src` and `dist` of their packages. */
const THREADS: Record<string, string[]> = {
  store: ["sqlite/writer/writer-worker", "sqlite/damage/check-thread"],
  supply: ["schemas/schema-worker"],
};
/** The folder of the bundles below `dist`, as in the `exports` of package.json. */
const LIB = "lib";

interface Manifest {
  exports: Record<string, { "backplane-source": string; default: string }>;
}

async function buildPackage(name: string): Promise<void> {
  const folder = join(ROOT, "packages", name);
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const lib = join(folder, "dist", LIB);
  const entryPoints = Object.fromEntries(
    Object.values(exports).map((entry) => [
      relative(`dist/${LIB}`, entry.default).replace(/\.js$/, ""),
      join(folder, entry["backplane-source"]),
    ]),
  );
  const outputs = await bundle(lib, {
    entryPoints,
    splitting: true,
    chunkNames: "shared-[hash]",
    ...(name === COMMAND ? WITH_LIBRARIES : { packages: "external" }),
  });
  for (const { path, contents } of outputs) replaceFile(path, contents);
  const written = new Set(outputs.map(({ path }) => path));
  const obsolete = readdirSync(lib).filter((file) => !written.has(join(lib, file)));
  for (const file of obsolete) rmSync(join(lib, file));
  // The cache contains the compiled code of the obsolete files; packages/cli/src/main.ts fills it again.
  if (obsolete.length > 0) rmSync(join(folder, "dist/compile-cache"), { recursive: true, force: true });
  await buildThreads(folder, THREADS[name] ?? []);
}

/** Replaces the entry that tsc wrote, at the path that the plugin's manifest specifies. */
async function buildPlugin(name: string): Promise<void> {
  const folder = join(ROOT, "plugins", name);
  const entryPoints = [join(folder, "src/plugin.ts")];
  const outputs = await bundle(join(folder, "dist"), { entryPoints, packages: "external" });
  for (const { path, contents } of outputs) replaceFile(path, contents);
}

/** Replaces the modules that tsc wrote, at the paths from which other modules start the threads. */
async function buildThreads(folder: string, programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    const outdir = join(folder, "dist", program, "..");
    const outputs = await bundle(outdir, {
      entryPoints: [join(folder, "src", `${program}.ts`)],
      ...WITH_LIBRARIES,
    });
    for (const { path, contents } of outputs) replaceFile(path, contents);
  }
}

/** CommonJS libraries in an ES module need `require` for Node's built-in modules. */
const WITH_LIBRARIES: BuildOptions = {
  conditions: ["backplane-source"],
  external: ["pg-native", "bufferutil", "utf-8-validate"],
  banner: {
    js: 'import { createRequire as requireFrom } from "node:module";\nconst require = requireFrom(import.meta.url);',
  },
};

async function bundle(outdir: string, options: BuildOptions): Promise<OutputFile[]> {
  const { outputFiles } = await build({
    outdir,
    bundle: true,
    legalComments: "none",
    platform: "node",
    format: "esm",
    target: "node20",
    plugins: [rewriteSources(outdir), plainBuiltins],
    logLevel: "error",
    ...options,
    write: false,
  });
  return outputFiles!.map((file) => ({ ...file, contents: toAscii(file.text) }));
}

/**
 * A single character beyond Latin-1 makes V8 store and scan the whole text with two bytes per character. esbuild
 * escapes such characters in strings, so the remaining ones are in comments and regular expressions, which accept `\u`.
 */
function toAscii(text: string): Buffer {
  const escaped = text.replace(
    /[\u0080-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return Buffer.from(escaped, "latin1");
}

/**
 * Changes two things in the sources. `import.meta.url` becomes the URL of the module that tsc wrote to `dist`, next to
 * the files that it reads; the packages are siblings in a clone and in node_modules. And `z` is imported as a
 * namespace, because esbuild can drop unused parts of a module, but not of an object, which drops three quarters of zod
 * and saves a tenth of the start time.
 */
function rewriteSources(outdir: string): Plugin {
  return {
    name: "rewrite-sources",
    setup: (building) =>
      building.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        const [workspace, name, , ...rest] = relative(ROOT, path).split(sep);
        const built = join(ROOT, workspace!, name!, "dist", ...rest).replace(/\.ts$/, ".js");
        const module_path = relative(outdir, built).split(sep).join("/");
        const contents = text
          .replaceAll("import.meta.url", `new URL("${module_path}", import.meta.url).href`)
          .replace('import { z } from "zod";', 'import * as z from "zod";');
        return contents === text ? null : { contents, loader: "ts" };
      }),
  };
}

/**
 * An ES import of a built-in module evaluates all its exports, and some of them load more modules: streams, web
 * streams, an HTTP client. The gateway does not use most of them, so an `import` reads only the exports that it lists.
 * A `require` gets the module itself. If an `import` also got the whole module, esbuild would define a getter per
 * export in every file with such an import, which took a tenth of the start time.
 */
const plainBuiltins: Plugin = {
  name: "plain-builtins",
  setup(building) {
    building.onResolve({ filter: /^node:/ }, ({ path, kind }) => ({
      path,
      namespace: kind === "import-statement" ? "builtin-names" : "builtin",
      sideEffects: false,
    }));
    building.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
    building.onLoad({ filter: /.*/, namespace: "builtin-names" }, ({ path }) => ({
      contents: renderNamedExports(path),
    }));
  },
};

/** esbuild drops a call that is marked as pure if nothing imports its result. */
function renderNamedExports(builtin: string): string {
  const names = Object.keys(process.getBuiltinModule(builtin)!).filter((name) => name !== "default");
  return `const get = (name) => process.getBuiltinModule(${JSON.stringify(builtin)})[name];
export default /* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(builtin)});
${names.map((name) => `const own_${name} = /* @__PURE__ */ get("${name}");\nexport { own_${name} as ${name} };`).join("\n")}`;
}

if (import.meta.main) {
  const plugins = readdirSync(join(ROOT, "plugins"));
  await Promise.all([...PACKAGE_NAMES.map(buildPackage), ...plugins.map(buildPlugin)]);
}
