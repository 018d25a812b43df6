/** A folder is packed here and uploaded, so it need not be local to the gateway. */
import { PassThrough } from "node:stream";
import type { Package } from "@backplane/contract";
import type { Context } from "./context.ts";

export async function uploadFolder(context: Context, path: string): Promise<Package> {
  const { packFolder } = await import("@backplane/supply");
  const archive = new PassThrough();
  let failure: unknown;
  // A pack that fails ends the upload too, and its own error is the one worth showing.
  const packed = packFolder(path, archive).catch((error: unknown) => {
    failure ??= error;
    archive.destroy(error as Error);
  });
  try {
    const installed = await context.client().packages.installArchive(archive);
    await packed;
    return installed;
  } catch (error) {
    failure ??= error;
    archive.destroy();
    throw failure;
  }
}
