/** Sends one installation request. A folder is packed while it is uploaded, so the gateway may be on another machine. */
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
} from "@backplane/contract";
import { EXIT } from "../command-line/exit-codes.ts";
import type { CommandContext } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** A folder or an archive of this machine, or a source that the gateway reads itself. */
export type SentSource =
  | { path: string; folder: boolean }
  | { named: InstallationRequest["source"]; label: string };

export async function sendInstallation(
  context: CommandContext,
  source: SentSource,
  settings: InstallationSettings,
): Promise<Installation> {
  try {
    return "named" in source
      ? await sendNamed(context, source, settings)
      : await sendArchive(context, source, settings);
  } catch (error) {
    // On the command line an unknown slot is a wrong flag.
    const { details, fix } = error as { details?: ErrorDetails; fix?: string };
    if (codeOf(error) !== "binding.invalid" || details?.unknown_slot === undefined) throw error;
    throw new BackplaneError("cli.usage", (error as Error).message, fix === undefined ? {} : { fix });
  }
}

/** The gateway may download packages for minutes, and continues after this command was interrupted. */
async function sendNamed(
  context: CommandContext,
  { named, label }: Extract<SentSource, { named: unknown }>,
  settings: InstallationSettings,
): Promise<Installation> {
  const { io, out } = context;
  const stopListening = io.onSignal(() => {
    out.note(
      plainLine(
        `Interrupted. The gateway continues to install ${label}. To see the result: backplane plugin list`,
      ),
    );
    io.exit(EXIT.interrupted);
  });
  try {
    return await context.client().installations.install({ source: named, ...settings });
  } finally {
    stopListening();
  }
}

async function sendArchive(
  context: CommandContext,
  { path, folder }: { path: string; folder: boolean },
  settings: InstallationSettings,
): Promise<Installation> {
  const { installations } = context.client();
  if (!folder) return await installations.installArchive(createReadStream(path), settings);
  return await packedFolder(path, (archive) =>
    installations.installArchive(archive, settings, {}, folderMetadata(path)),
  );
}

/** `send` receives the archive as a stream while the folder is being packed. */
async function packedFolder<T>(path: string, send: (archive: Readable) => Promise<T>): Promise<T> {
  const { packFolder } = await import("@backplane/supply");
  const archive = new PassThrough();
  let failure: unknown;
  // If packing fails, the upload is aborted and the packing error is reported.
  const packed = packFolder(path, archive).catch((error: unknown) => {
    failure ??= error;
    archive.destroy(error as Error);
  });
  try {
    const answer = await send(archive);
    await packed;
    return answer;
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
