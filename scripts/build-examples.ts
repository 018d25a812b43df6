/**
 * Makes the examples self-contained, as every package must be: bundles TypeScript into one file, and copies the
 * Python SDK next to the plugin. Generated files are not committed. A file is replaced atomically
 * and only if it changed, so that a concurrent test never reads a partial file.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PYTHON_SDK = join(ROOT, "packages/sdk/python/backplane_sdk.py");

export async function buildExamples(root: string = join(ROOT, "examples")): Promise<string[]> {
  const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const built = await Promise.all(folders.map((folder) => buildExample(join(root, folder.name))));
  return built.flat();
}

/** Returns the paths of the generated files. */
export async function buildExample(folder: string): Promise<string[]> {
  const outputs: string[] = [];
  const source = join(folder, "src/plugin.ts");
  if (existsSync(source)) outputs.push(await bundle(source, join(folder, "bin/plugin.mjs")));
  if (existsSync(join(folder, "bin/plugin.py"))) {
    outputs.push(replaceFile(join(folder, "lib/backplane_sdk.py"), readFileSync(PYTHON_SDK)));
  }
  return outputs;
}

async function bundle(source: string, target: string): Promise<string> {
  const result = await build({
    entryPoints: [source],
    outfile: target,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    conditions: ["backplane-source"],
    write: false,
    logLevel: "warning",
  });
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error(`esbuild produced no output for ${source}.`);
  return replaceFile(target, output.contents);
}

if (import.meta.main) await buildExamples();
