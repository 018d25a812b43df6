/**
 * Bundles the TypeScript SDK into one file, which `plugin init` copies into each new plugin. The file is replaced
 * atomically and only if it changed.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const SDK = fileURLToPath(new URL("../packages/sdk", import.meta.url));

const { outputFiles } = await build({
  entryPoints: [join(SDK, "src/index.ts")],
  outfile: join(SDK, "dist/bundle.mjs"),
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  conditions: ["backplane-source"],
  write: false,
  logLevel: "error",
});
for (const { path, contents } of outputFiles) replaceFile(path, contents);
