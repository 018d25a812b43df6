/** Opens a source as an archive and returns it with the hints that the source provides. A folder is packed first. */
import { createReadStream, readFileSync, statSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { BackplaneError, SIGNATURE_FILE } from "@backplane/contract";
import type { PackageSource, WorkspaceSource } from "@backplane/ports";
import type { ContentStore } from "../content/content-store.ts";
import { packTar } from "../pack/pack-folder.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import { listTree, type TreeListing } from "../tree/tree-listing.ts";
import type { PackageFormat, SourceHints } from "./formats/format.ts";
import { FORMATS } from "./formats/formats.ts";
import { invalidSource, missingManifest } from "./formats/source-errors.ts";

export interface SourceArchive {
  bytes: AsyncIterable<Uint8Array>;
  hints: SourceHints;
  created_at: string | null;
}

const MAX_SIGNATURE_BYTES = 64 * 1024;
const ARCHIVE = /\.(jar|zip|tar|tgz|tar\.gz)$/;

/** The folder of a workspace that contains its tools. */
export const TOOLS_FOLDER = "tools";

export async function openSource(
  source: Exclude<PackageSource, { kind: "npm" }>,
  store: ContentStore,
  formats: readonly Pick<PackageFormat, "matchesNames">[] = FORMATS,
): Promise<SourceArchive> {
  if (source.kind === "archive") {
    const { bytes, name, born_at = null } = source;
    return { bytes, hints: name === undefined ? {} : { name }, created_at: born_at };
  }
  const { path } = source;
  if (!isAbsolute(path)) throw invalidSource(`${path} is not an absolute path`);
  const info = await stat(path).catch(() => null);
  if (info === null) throw invalidSource(`No folder or archive exists at ${path}`);
  // Some file systems store no creation time and return the epoch.
  const created_at = info.birthtimeMs > 0 ? info.birthtime.toISOString() : null;
  const name = basename(path);
  if (source.kind === "folder" && info.isFile() && ARCHIVE.test(path)) {
    return { bytes: createReadStream(path), hints: {}, created_at };
  }
  if (!info.isDirectory())
    throw invalidSource(
      source.kind === "workspace"
        ? `${path} is not a folder`
        : `${path} is neither a folder nor a jar, zip, tar or tgz`,
    );
  if (source.kind === "workspace") {
    const bytes = await packWorkspace(source, store);
    const { package_id } = source;
    const hints = { name, changing: true, ...(package_id === null ? {} : { package_id }) };
    return { bytes, hints, created_at };
  }
  const names = await readdir(path);
  if (!formats.some((format) => format.matchesNames(names))) {
    throw missingManifest(path, names);
  }
  return { bytes: packTar(() => path, await surveyFolder(path)), hints: { name }, created_at };
}

/** Returns the signature stored in a folder: empty if there is none, `[null]` if it cannot be read. */
export function readFolderSignature(folder: string): unknown[] {
  const file = join(folder, SIGNATURE_FILE);
  const info = statSync(file, { throwIfNoEntry: false });
  if (info === undefined) return [];
  if (!info.isFile() || info.size > MAX_SIGNATURE_BYTES) return [null];
  try {
    return [JSON.parse(readFileSync(file, "utf8"))];
  } catch {
    return [null];
  }
}

async function packWorkspace(
  { path, whole, keep, digest }: WorkspaceSource,
  store: ContentStore,
): Promise<AsyncIterable<Uint8Array>> {
  const listing = await surveyFolder(path, whole ? "" : TOOLS_FOLDER);
  // Only the reviewed content may be loaded.
  if (listing.digest !== digest) throw new BackplaneError("workspace.changed");
  if (keep === null) return packTar(() => path, listing);
  const kept_files = (await store.listFiles(keep.digest)).filter((file) => keep.files.includes(file.path));
  const names = new Set(kept_files.map((file) => file.path));
  const tree = await store.verifyTree(keep.digest);
  const combined: TreeListing = listTree([
    ...listing.files.filter((file) => !names.has(file.path)),
    ...kept_files,
  ]);
  return packTar((file) => (names.has(file) ? tree : path), combined);
}
