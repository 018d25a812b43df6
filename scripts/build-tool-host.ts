/**
 * Bundles the host program for tool files and its compiler into one file, because a sandbox mounts that file and
 * nothing else of this installation. The file is replaced atomically and only if it changed.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const SDK = fileURLToPath(new URL("../packages/sdk", import.meta.url));

export async function buildToolHost(target: string = join(SDK, "dist/tool-host.mjs")): Promise<string> {
  const result = await build({
    entryPoints: [join(SDK, "src/host/tool-files/main.ts")],
    outfile: target,
    bundle: true,
    legalComments: "none",
    platform: "node",
    format: "esm",
    target: "node20",
    conditions: ["backplane-source"],
    // The compiler is CommonJS and loads Node's built-in modules with require.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    write: false,
    logLevel: "error",
  });
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error("esbuild produced no output for the tool host.");
  return replaceFile(target, output.contents);
}

if (import.meta.main) await buildToolHost();
