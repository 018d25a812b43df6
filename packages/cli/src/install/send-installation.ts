/**
 * Sends one installation request. A folder is packed while it is uploaded, so the gateway may be on another machine.
 */
import { createReadStream, statSync } from "node:fs";
import { basename } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import {
  BackplaneError,
  codeOf,
  type ErrorDetails,
  type Installation,
  type InstallationRequest,
  type InstallationSettings,
  PROGRESS_STEPS,
  type ProgressStep,
} from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";

/** A folder or an archive on this machine, or a source that the gateway reads itself. */
export type LocalOrGatewaySource =
  | { path: string; is_folder: boolean }
  | { gateway_source: InstallationRequest["source"]; label: string };

export async function sendInstallation(
  context: CommandContext,
  source: LocalOrGatewaySource,
  settings: InstallationSettings,
): Promise<Installation> {
  try {
    return "gateway_source" in source
      ? await context.client().installations.install({ source: source.gateway_source, ...settings })
      : await sendArchive(context, source, settings);
  } catch (error) {
    if (codeOf(error) === "request.cancelled")
      throw interruptedInstallationError(error, "gateway_source" in source ? source.label : source.path);
    // On the command line, an unknown slot is an invalid flag.
    const { details, fix } = error as { details?: ErrorDetails; fix?: string };
    if (codeOf(error) !== "binding.invalid" || details?.unknown_slot === undefined) throw error;
    throw new BackplaneError("cli.usage", (error as Error).message, fix === undefined ? {} : { fix });
  }
}

/** States whether anything was installed. The gateway stores everything in one step, `store`. */
export function interruptedInstallationError(error: unknown, label: string): BackplaneError {
  const { details } = error as { details?: ErrorDetails & { step?: ProgressStep | null } };
  const step = PROGRESS_STEPS.indexOf(details?.step ?? "read");
  const may_be_stored = step >= PROGRESS_STEPS.indexOf("store");
  const message = may_be_stored
    ? `Interrupted. ${label} may already be installed; the gateway stopped the remaining steps.`
    : `Interrupted. The gateway stopped the installation of ${label}; nothing was installed.`;
  return new BackplaneError("request.cancelled", message, {
    ...(details === undefined ? {} : { details }),
    fix: may_be_stored ? "backplane plugin list" : "Run the command again to install it.",
    cause: error,
  });
}

async function sendArchive(
  context: CommandContext,
  { path, is_folder }: { path: string; is_folder: boolean },
  settings: InstallationSettings,
): Promise<Installation> {
  const { installations } = context.client();
  if (!is_folder) return await installations.installArchive(createReadStream(path), settings);
  return await packAndSend(path, (archive) =>
    installations.installArchive(archive, settings, {}, folderMetadata(path)),
  );
}

/** `send` receives the archive as a stream while the folder is being packed. */
async function packAndSend<T>(path: string, send: (archive: Readable) => Promise<T>): Promise<T> {
  const { packFolder } = await import("@backplane/supply");
  const archive = new PassThrough();
  let failure: unknown;
  // If packing fails, the upload is aborted and the packing error is reported.
  const packing = packFolder(path, archive).catch((error: unknown) => {
    failure ??= error;
    archive.destroy(error as Error);
  });
  try {
    const response = await send(archive);
    await packing;
    return response;
  } catch (error) {
    failure ??= error;
    archive.destroy();
    throw failure;
  }
}

/** Metadata that the archive does not contain: name and creation time of the folder. */
function folderMetadata(path: string): { name?: string; born_at?: string } {
  const { birthtime, birthtimeMs } = statSync(path);
  const name = basename(path).slice(0, 120);
  return {
    ...(name === "" ? {} : { name }),
    ...(birthtimeMs > 0 ? { born_at: birthtime.toISOString() } : {}),
  };
}
