/**
 * Installs the instrument plugins that are jar or zip files in the `plugins` folder of the home (instr.lifecycle), each
 * after the plugins that it depends on. A plugin is bound once, and its binding is changed when the file contains
 * another version. Failures are logged. A plugin runs inside the gateway process only if an operator allows it,
 * whatever the file declares.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Caller, InstrumentInstallResult, Kernel, Logger } from "@backplane/ports";

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
  const paths = names
    .filter((each) => ARCHIVE.test(each))
    .toSorted()
    .map((name) => join(folder, name));
  try {
    for await (const result of instruments.installAll(HOST_ADMIN_CALLER, paths, stop)) logResult(log, result);
  } catch (error) {
    log.error({ err: error, folder }, "the instrument plugins in the plugins folder could not be installed");
  }
}

function logResult(log: Logger, result: InstrumentInstallResult): void {
  const { path } = result;
  if ("error" in result) {
    const { code, fix, message } = result.error;
    log.error(
      { path, code, message, fix },
      "a file in the plugins folder cannot be installed as an instrument plugin",
    );
    return;
  }
  const { error, plugin_id, state, version } = result.plugin;
  if (error === null)
    log.info({ plugin: plugin_id, version, state, path }, "discovered an instrument plugin");
  else
    log.error(
      { plugin: plugin_id, version, state, path, ...error },
      "discovered an instrument plugin with an error",
    );
}
