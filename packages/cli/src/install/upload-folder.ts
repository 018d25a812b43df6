/** Packs a folder and uploads it, so the gateway may be on another machine. */
import { statSync } from "node:fs";
import { basename } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import type { Package } from "@backplane/contract";
import type { Context } from "../context/context.ts";

export async function uploadFolder(context: Context, path: string): Promise<Package> {
  return await packedFolder(path, (archive) =>
    context.client().packages.installArchive(archive, {}, folderMetadata(path)),
  );
}

/** `send` receives the archive as a stream while the folder is being packed. */
export async function packedFolder<T>(path: string, send: (archive: Readable) => Promise<T>): Promise<T> {
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
