/**
 * Bundles programs that a test starts hundreds of times. A process that loads the TypeScript sources of a module spends
 * four fifths of its time on that. Threads are entries too: the code that starts them expects them beside itself.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, type Plugin } from "esbuild";

/** CommonJS dependencies load Node's modules with `require`. */
const REQUIRE =
  'import { createRequire as createRequireOfBundle } from "node:module"; const require = createRequireOfBundle(import.meta.url);';

/** Writes `NAME.js` into `folder` for every entry. */
export async function bundlePrograms(folder: string, entries: Record<string, URL>): Promise<void> {
  const paths = Object.entries(entries).map(([name, { pathname }]) => [name, pathname]);
  await build({
    entryPoints: Object.fromEntries(paths),
    outdir: folder,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: `node${process.versions.node}`,
    conditions: ["backplane-source"],
    banner: { js: REQUIRE },
    plugins: [importZodAsNamespace],
    logLevel: "error",
  });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
}

/** Imports zod as a namespace: esbuild can leave out unused parts of a module, but not of the object `z`. */
const importZodAsNamespace: Plugin = {
  name: "parts-of-zod",
  setup: (building) =>
    building.onLoad({ filter: /\/(?:packages|plugins)\/.*\.ts$/ }, ({ path }) => {
      const contents = readFileSync(path, "utf8");
      return {
        contents: contents.replace('import { z } from "zod";', 'import * as z from "zod";'),
        loader: "ts",
      };
    }),
};
