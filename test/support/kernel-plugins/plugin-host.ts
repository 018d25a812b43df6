/**
 * The program that hosts kernel plugins, bundled from its sources once for each test process. Loading the sources takes
 * three quarters of the time of a process that hosts a small plugin.
 */
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ModuleHostOptions } from "@backplane/runner";
import { bundlePrograms } from "./bundle-programs.ts";

const folder = mkdtempSync(join(tmpdir(), "backplane-plugin-host-"));
await bundlePrograms(folder, { main: new URL("../../../packages/sdk/src/host/main.ts", import.meta.url) });
// Sandboxed plugins run as other users.
chmodSync(folder, 0o755);
// The sandbox mounts the folder under the name of its package.
writeFileSync(join(folder, "package.json"), '{ "name": "@backplane/sdk", "type": "module" }\n');

export const BUNDLED_HOST = join(folder, "main.js");

/** The same options with the bundled program. */
export function withBundledHost(options: ModuleHostOptions): ModuleHostOptions {
  return { ...options, host_module: BUNDLED_HOST };
}
