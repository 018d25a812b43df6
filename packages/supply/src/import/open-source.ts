/** From a source to the bytes of an archive, and to what is known of it besides: a folder is packed like a stranger's. */
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, isAbsolute } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { PackageSource, WorkspaceSource } from "@backplane/ports";
import type { ContentStore } from "../content/content-store.ts";
import type { Npm } from "../npm/npm-command.ts";
import { tarOf } from "../pack/pack-folder.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import { listTree, type TreeListing } from "../tree/tree-listing.ts";
import type { PackageFormat, Told } from "./formats/format.ts";
import { FORMATS } from "./formats/formats.ts";
import { noManifest, noSource } from "./formats/no-source.ts";
import { npmServer } from "./mcp/npm-server.ts";

export interface OpenedSource {
  bytes: AsyncIterable<Uint8Array>;
  told: Told;
  born_at: string | null;
}

const ARCHIVE = /\.(jar|zip|tar|tgz|tar\.gz)$/;

/** Which folder of a workspace holds its tools. */
export const WORKSPACE_PART = "tools";

export async function openSource(
  source: PackageSource,
  store: ContentStore,
  npm: Npm,
  formats: readonly Pick<PackageFormat, "marker">[] = FORMATS,
): Promise<OpenedSource> {
  if (source.kind === "archive") {
    const { bytes, name, born_at = null } = source;
    return { bytes, told: name === undefined ? {} : { name }, born_at };
  }
  if (source.kind === "npm") {
    return { bytes: npmServer(npm, source.spec, source.secret_slots), told: {}, born_at: null };
  }
  const { path } = source;
  if (!isAbsolute(path)) throw noSource(`${path} is not an absolute path`);
  const found = await stat(path).catch(() => null);
  if (found === null) throw noSource(`There is no folder or archive ${path}`);
  // Some file systems keep no birth time and answer the epoch.
  const born_at = found.birthtimeMs > 0 ? found.birthtime.toISOString() : null;
  const name = basename(path);
  if (source.kind === "folder" && found.isFile() && ARCHIVE.test(path)) {
    return { bytes: createReadStream(path), told: {}, born_at };
  }
  if (!found.isDirectory()) throw noSource(`${path} is neither a folder nor a jar, zip, tar or tgz`);
  if (source.kind === "workspace") {
    const bytes = await workspaceBytes(source, store);
    const { package_id } = source;
    return { bytes, told: { name, changing: true, ...(package_id === null ? {} : { package_id }) }, born_at };
  }
  const names = await readdir(path);
  if (!formats.some((format) => format.marker(names))) {
    throw noManifest(path, names);
  }
  return { bytes: tarOf(() => path, await surveyFolder(path)), told: { name }, born_at };
}

async function workspaceBytes(
  { path, whole, keep, digest }: WorkspaceSource,
  store: ContentStore,
): Promise<AsyncIterable<Uint8Array>> {
  const found = await surveyFolder(path, whole ? "" : WORKSPACE_PART);
  // Nothing is loaded that nobody has looked at.
  if (found.digest !== digest) throw new BackplaneError("workspace.changed");
  if (keep === null) return tarOf(() => path, found);
  const kept = (await store.listing(keep.digest)).filter((file) => keep.files.includes(file.path));
  const names = new Set(kept.map((file) => file.path));
  const tree = await store.verified(keep.digest);
  const mixed: TreeListing = listTree([...found.files.filter((file) => !names.has(file.path)), ...kept]);
  return tarOf((file) => (names.has(file) ? tree : path), mixed);
}
