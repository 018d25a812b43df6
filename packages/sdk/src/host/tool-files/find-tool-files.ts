import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isToolFile } from "@backplane/contract";

/** Returns the tool files of a package, as paths inside the package, in a stable order. */
export function findToolFiles(folder: string): string[] {
  return readdirSync(join(folder, "tools"), { withFileTypes: true })
    .filter((entry) => entry.isFile() && isToolFile(entry.name))
    .map((entry) => `tools/${entry.name}`)
    .sort();
}
