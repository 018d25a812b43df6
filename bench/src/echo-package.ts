/** The echo plugin as an author would ship it: bundled with the SDK into a folder of its own. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export async function buildEchoPackage(): Promise<{ folder: string; remove(): void }> {
  const source = fileURLToPath(new URL("../plugins/echo", import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), "backplane-echo-"));
  cpSync(join(source, "vai-plugin.toml"), join(folder, "vai-plugin.toml"));
  await build({
    entryPoints: [join(source, "plugin.ts")],
    outfile: join(folder, "bin/plugin.mjs"),
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
