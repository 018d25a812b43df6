/** The echo plugin as an author would ship it: bundled with the SDK into its own folder. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createPackageImporter, createSchemas, openContentStore, openPackageImages } from "@backplane/supply";
import { createTestLogger } from "@backplane/test-kit/test-logger";
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

/** Imports the echo plugin into a content store in `home` and opens the images from which the runner starts it. */
export async function importEchoPackage(home: string) {
  const echo = await buildEchoPackage();
  const schemas = createSchemas();
  const store = openContentStore(join(home, "blobs"));
  const os = process.platform === "darwin" ? "darwin" : "linux";
  const arch = process.arch === "arm64" ? "arm64" : "amd64";
  const importer = createPackageImporter({ store, schemas, host: { os, arch } });
  const { manifest, digest } = await importer.import({ kind: "folder", path: echo.folder });
  const { package_id, version, runtime } = manifest;
  const files = openPackageImages({ store, dir: join(home, "images"), log: createTestLogger() });
  return {
    files,
    pack: { package_id, version, digest, runtime },
    close: async () => {
      await files.close();
      await schemas.close();
      echo.remove();
    },
  };
}

/** An echo tool as a published MCP server: the official SDK and one tool, bundled into one file. */
export async function buildMcpEcho(): Promise<{ folder: string; program: string; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-mcp-echo-"));
  const program = join(folder, "server.mjs");
  await build({
    entryPoints: [fileURLToPath(new URL("./children/mcp-1.mjs", import.meta.url))],
    outfile: program,
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "warning",
    banner: {
      js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
    },
  });
  const manifest = `api_version = "vai.plugin.v1"
package_id = "bench/mcp"
version = "1.0.0"
name = "MCP echo"
[runtime]
protocol = "mcp.stdio"
entrypoint = ["node", "./server.mjs"]
`;
  writeFileSync(join(folder, "vai-plugin.toml"), manifest);
  return { folder, program, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
