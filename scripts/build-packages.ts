/**
 * Bundles each package of the gateway into one file per entry, because reading 700 small modules took most of
 * the start time. The package names and entries stay the same, so an import by name gets the same module.
 * Files that a module reads from its own folder (threads, pages, C sources) are still found where tsc puts
 * them.
 */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const PACKAGES = fileURLToPath(new URL("../packages", import.meta.url));
const NAMES = [
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
  "cli",
];
/** The path below `dist`, as package.json names it. */
const LIB = "lib";

interface Manifest {
  exports: Record<string, { "backplane-source": string; default: string }>;
}

async function buildPackage(folder: string): Promise<void> {
  const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const lib = join(folder, "dist", LIB);
  const entryPoints = Object.fromEntries(
    Object.values(exports).map((entry) => [
      relative(`dist/${LIB}`, entry.default).replace(/\.js$/, ""),
      join(folder, entry["backplane-source"]),
    ]),
  );
  const { outputFiles } = await build({
    entryPoints,
    outdir: lib,
    bundle: true,
    splitting: true,
    chunkNames: "shared-[hash]",
    packages: "external",
    legalComments: "none",
    platform: "node",
    format: "esm",
    target: "node20",
    plugins: [fromDist(join(folder, "src")), plainHttp],
    write: false,
    logLevel: "error",
  });
  for (const { path, contents } of outputFiles) replaceFile(path, contents);
  const made = new Set(outputFiles.map(({ path }) => path));
  for (const name of readdirSync(lib)) if (!made.has(join(lib, name))) rmSync(join(lib, name));
}

/**
 * `import.meta.url` of a source file becomes the URL of its module in `dist`, next to the files that it
 * reads.
 */
function fromDist(src: string): Plugin {
  return {
    name: "from-dist",
    setup: (building) =>
      building.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!text.includes("import.meta.url")) return null;
        const own = relative(src, path).replace(/\.ts$/, ".js");
        const contents = text.replaceAll("import.meta.url", `new URL("../${own}", import.meta.url).href`);
        return { contents, loader: "ts" };
      }),
  };
}

/**
 * An ES import of node:http makes Node evaluate all its exports, and one of them loads an HTTP client that
 * nothing here uses.
 */
const plainHttp: Plugin = {
  name: "plain-http",
  setup(building) {
    building.onResolve({ filter: /^node:http$/ }, ({ path }) => ({ path, namespace: "builtin" }));
    building.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

if (import.meta.main) await Promise.all(NAMES.map((name) => buildPackage(join(PACKAGES, name))));
