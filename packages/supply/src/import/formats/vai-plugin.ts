/** The native format: a folder with `vai-plugin.toml`. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { MANIFEST_FILE, readManifest } from "../../manifest/read-manifest.ts";
import type { PackageFormat } from "./format.ts";
import { invalidSource } from "./source-errors.ts";

const MAX_MANIFEST_BYTES = 64 * 1024;

export const vaiPlugin: PackageFormat = {
  name: MANIFEST_FILE,
  starts_own_program: false,
  matchesNames: (names) => names.includes(MANIFEST_FILE),
  recognizes: ({ files }) => files.some(({ path }) => path === MANIFEST_FILE),
  async read(tree, { files }) {
    const file = files.find(({ path }) => path === MANIFEST_FILE)!;
    if (file.size > MAX_MANIFEST_BYTES) {
      throw invalidSource(`${MANIFEST_FILE} is larger than ${MAX_MANIFEST_BYTES} bytes`);
    }
    const text = await readFile(join(tree, MANIFEST_FILE), "utf8");
    return { manifest: readManifest(text), text };
  },
};
