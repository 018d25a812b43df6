/** Kernel plugins written out for a test: a folder with a package.json and one module of plain JavaScript. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface KernelPluginFolder {
  dir: string;
  remove(): void;
}

/** `body` is the inside of the plugin object, besides its name, version and category. */
export function kernelPluginFolder(name: string, body: string, category = "tool"): KernelPluginFolder {
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
