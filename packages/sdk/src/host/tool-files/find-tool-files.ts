import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isToolFile } from "@backplane/contract";

/** The tool files of a package, as paths inside it, in an order that never changes. */
export function findToolFiles(folder: string): string[] {
  return readdirSync(join(folder, "tools"), { withFileTypes: true })
    .filter((entry) => entry.isFile() && isToolFile(entry.name))
    .map((entry) => `tools/${entry.name}`)
    .sort();
}
