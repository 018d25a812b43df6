/**
 * Persistent data folders: one per plugin, organization and project for dialects that keep data. A plugin that is
 * removed and installed again finds its data. Mode 0700, created with the first process and never removed by the
 * runner.
 */
import { mkdir, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";

const PART = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
/** Stands for the project in a call without one, on a binding of the whole organization. */
const NO_PROJECT = "org";
const PLUGINS = "plugins";
/** Plugin ids in Hefty's format have no publisher. The importer adds this prefix, and data folders omit it. */
const HEFTY = "hefty/";

/** Identifies a data folder. Processes with the same key never run at the same time, whatever their binding. */
export function dataKey({ package: { package_id }, context }: ProcessRequest): string {
  const id = package_id.startsWith(HEFTY) ? package_id.slice(HEFTY.length) : package_id;
  // No id contains a plus, so two packages never share a folder.
  return [id.replaceAll("/", "+"), context.org_id, context.project_id ?? NO_PROJECT].join("/");
}

/** Must not run twice at the same time for one key. */
export async function makeDataDir(root: string | null, request: ProcessRequest): Promise<string> {
  if (root === null) {
    throw new BackplaneError("launch_failed", "This runner has no data folder for plugins.");
  }
  const parts = dataKey(request).split("/");
  const legacy_parts = [request.binding_id, request.context.project_id ?? NO_PROJECT];
  if (![...parts, ...legacy_parts].every((part) => PART.test(part))) {
    throw new BackplaneError("internal", `${parts.join("/")} is not a valid name for a data folder.`);
  }
  const folder = join(root, PLUGINS, ...parts);
  return (await adoptLegacyFolder(join(root, ...legacy_parts), folder)) ?? (await makeFolder(folder));
}

/**
 * Earlier versions kept one folder per binding and project. It becomes the folder of the plugin, unless another binding
 * has created that one already; then this binding continues to use its own, so that no data is lost or mixed. Null if
 * no such folder exists.
 */
async function adoptLegacyFolder(legacy_folder: string, folder: string): Promise<string | null> {
  if (!(await exists(legacy_folder))) return null;
  if (await exists(folder)) return legacy_folder;
  await makeFolder(dirname(folder));
  await rename(legacy_folder, folder);
  return folder;
}

/** Makes one level at a time, because the recursive mkdir of Node reports a quota or an I/O error as ENOENT. */
async function makeFolder(folder: string): Promise<string> {
  if (await exists(folder)) return folder;
  await makeFolder(dirname(folder));
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw diskFault(error, "the gateway's home (data)") ?? error;
  });
  return folder;
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return false;
      throw error;
    },
  );
}
