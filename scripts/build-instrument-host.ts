/**
 * Bundles the host program for instrument modules into one file, because a sandbox mounts that file and nothing
 * else of this installation. The file is replaced atomically and only if it changed.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { replaceFile } from "./replace-file.ts";

const SDK = fileURLToPath(new URL("../packages/sdk", import.meta.url));

export async function buildInstrumentHost(
  target: string = join(SDK, "dist/instrument-host.mjs"),
): Promise<string> {
  const result = await build({
    entryPoints: [join(SDK, "src/host/instruments/main.ts")],
    outfile: target,
    bundle: true,
    legalComments: "none",
    platform: "node",
    format: "esm",
    target: "node24",
    conditions: ["backplane-source"],
    write: false,
    logLevel: "error",
  });
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error("esbuild produced no output for the instrument host.");
  return replaceFile(target, output.contents);
}

if (import.meta.main) await buildInstrumentHost();
