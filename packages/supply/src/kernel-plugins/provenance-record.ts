/**
 * `provenance.json` next to node_modules: the provenance of packages, with the version that it belongs to. The file
 * is part of the tree, so it changes in the same step as the code that it describes.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isObject, type Provenance } from "@backplane/contract";
import { ProvenanceSchema } from "@backplane/contract/schema";
import { writeJson } from "../files/checked-json.ts";

export const PROVENANCE_FILE = "provenance.json";

/** Replaces the record of a package. Without provenance, such as for an archive, the record is removed. */
export async function recordProvenance(
  folder: string,
  name: string,
  record: { version: string; provenance: Provenance } | null,
): Promise<void> {
  const { [name]: previous, ...others } = await readRecords(folder);
  if (record === null && previous === undefined) return;
  await writeJson(join(folder, PROVENANCE_FILE), record === null ? others : { ...others, [name]: record });
}

/** Returns undefined if nothing is recorded for this version. */
export async function readProvenance(
  folder: string,
  name: string,
  version: string,
): Promise<Provenance | undefined> {
  const record = (await readRecords(folder))[name];
  if (!isObject(record) || record.version !== version) return undefined;
  const parsed = ProvenanceSchema.safeParse(record.provenance);
  return parsed.success ? parsed.data : undefined;
}

/** An unreadable file counts as empty. */
async function readRecords(folder: string): Promise<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(await readFile(join(folder, PROVENANCE_FILE), "utf8"));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
