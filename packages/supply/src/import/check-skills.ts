/** A skill that a manifest names has to be there. */
import { BackplaneError, type Manifest } from "@backplane/contract";
import type { TreeListing } from "../tree/tree-listing.ts";

export function checkSkills({ skills = [] }: Manifest, { files }: TreeListing): void {
  for (const { name, path } of skills) {
    const file = `${path}/SKILL.md`;
    if (files.some((one) => one.path === file)) continue;
    throw new BackplaneError("package.invalid", `The skill ${name} has no file ${file}.`, {
      fix: "Name the folder that holds its SKILL.md.",
    });
  }
}
