/**
 * Instrument plugins that somebody put into the home's `plugins` folder as a jar or zip (instr.lifecycle): installed and
 * bound once, upgraded when the file is a newer version. What fails is in the log, and the next one is tried. Whatever a
 * file says of itself, nothing of it runs in the gateway's own process before an operator says so.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { toBackplaneError } from "@backplane/contract";
import type { Caller, Kernel, Logger } from "@backplane/ports";

const ARCHIVE = /\.(jar|zip)$/;

/** Whoever can write to the home is the host's admin. */
const HOST: Caller = {
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
  for (const name of names.filter((one) => ARCHIVE.test(one)).toSorted()) {
    if (stop.aborted) return;
    const path = join(folder, name);
    try {
      const { plugin_id, state, version } = await instruments.install(HOST, path);
      log.info({ plugin: plugin_id, version, state, path }, "an instrument plugin was discovered");
    } catch (error) {
      const { code, message } = toBackplaneError(error);
      log.error(
        { path, code, message },
        "a file in the plugins folder is no instrument plugin that can be installed",
      );
    }
  }
}
