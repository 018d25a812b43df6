/**
 * Bundles the program that hosts tool files into one file, with the compiler that it needs: a sandbox is shown that
 * file and nothing else of this installation. Replaced whole and only when it changes, as the examples are.
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
    // The compiler is CommonJS and asks for Node's own modules with require.
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
    },
    write: false,
    logLevel: "error",
  });
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error("esbuild made nothing of the tool host");
  return replaceFile(target, output.contents);
}

if (import.meta.main) await buildToolHost();
