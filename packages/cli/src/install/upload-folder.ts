/** A folder is packed here and uploaded, so it need not be local to the gateway. */
import { statSync } from "node:fs";
import { basename } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import type { Package } from "@backplane/contract";
import type { Context } from "../context/context.ts";

export async function uploadFolder(context: Context, path: string): Promise<Package> {
  return await packedFolder(path, (archive) =>
    context.client().packages.installArchive(archive, {}, folderFacts(path)),
  );
}

/** `send` is given the archive while it is being packed. */
export async function packedFolder<T>(path: string, send: (archive: Readable) => Promise<T>): Promise<T> {
  const { packFolder } = await import("@backplane/supply");
  const archive = new PassThrough();
  let failure: unknown;
  // A pack that fails ends the upload too, and its own error is the one worth showing.
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

/** What an archive cannot tell: what the folder is called, and since when there is one. */
function folderFacts(path: string): { name?: string; born_at?: string } {
  const { birthtime, birthtimeMs } = statSync(path);
  const name = basename(path).slice(0, 120);
  return {
    ...(name === "" ? {} : { name }),
    ...(birthtimeMs > 0 ? { born_at: birthtime.toISOString() } : {}),
  };
}
