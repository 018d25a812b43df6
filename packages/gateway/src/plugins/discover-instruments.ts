/**
 * Installs the instrument plugins that are jar or zip files in the `plugins` folder of the home (instr.lifecycle). Each
 * is installed and bound once, and its binding moves when the file has another version. Failures are logged. None of
 * them runs inside the gateway process unless an operator allows it, whatever the file declares.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { toBackplaneError } from "@backplane/contract";
import type { Caller, Kernel, Logger } from "@backplane/ports";

const ARCHIVE = /\.(jar|zip)$/;

/** Anyone who can write to the home has the rights of the host admin. */
const HOST_ADMIN_CALLER: Caller = {
  actor: "admin",
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "owner",
  scopes: ["admin"],
  admin: true,
};

export async function discoverInstruments(
  instruments: Kernel["instruments"],
  folder: string,
  log: Logger,
  stop: AbortSignal,
): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((each) => ARCHIVE.test(each)).toSorted()) {
    if (stop.aborted) return;
    const path = join(folder, name);
    try {
      const { plugin_id, state, version } = await instruments.install(HOST_ADMIN_CALLER, path, {
        keep_unloaded: true,
      });
      log.info({ plugin: plugin_id, version, state, path }, "discovered an instrument plugin");
    } catch (error) {
      const { code, message } = toBackplaneError(error);
      log.error(
        { path, code, message },
        "a file in the plugins folder cannot be installed as an instrument plugin",
      );
    }
  }
}
