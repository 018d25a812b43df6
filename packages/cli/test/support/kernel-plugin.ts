/** Writes kernel plugins: a folder with a package.json and one JavaScript module. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface KernelPluginFolder {
  dir: string;
  remove(): void;
}

/** `body` contains the members of the plugin object except name, version and category. */
export function createKernelPluginFolder(name: string, body: string, category = "tool"): KernelPluginFolder {
  const root = mkdtempSync(join(tmpdir(), "backplane-plugin-"));
  const dir = join(root, name);
  mkdirSync(dir);
  writeFileSync(
    join(dir, "package.json"),
    JSON.stringify({
      name,
      version: "1.0.0",
      type: "module",
      main: "./index.js",
      "yaya.plugins.v1": { [name]: { category } },
    }),
  );
  writeFileSync(
    join(dir, "index.js"),
    `export const plugin = { name: ${JSON.stringify(name)}, version: "1.0.0", category: "${category}", subscriptions: () => [], ${body} };\n`,
  );
  return { dir, remove: () => rmSync(root, { recursive: true, force: true }) };
}
