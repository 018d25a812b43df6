/** `plugin pack`: packs a folder into an archive. */
import { type FileHandle, open, rm } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { statOf, unreadable } from "../../install/plugin-source.ts";

export async function packPlugin(
  context: CommandContext,
  options: { out?: string },
  folder: string,
): Promise<undefined> {
  const { cwd } = context.io;
  const path = resolve(cwd, folder);
  if (!statOf(path, folder).isDirectory()) throw unreadable(folder, "is not a folder");
  const file = resolve(cwd, options.out ?? `${basename(path)}.tgz`);
  const { packFolder } = await import("@backplane/supply");
  const target = await createNew(file);
  try {
    const packed = await context.out.during(`Packing ${folder}`, () =>
      packFolder(path, target.createWriteStream()),
    );
    context.out.data(
      { file, digest: packed.digest, size_bytes: packed.size_bytes, files: packed.files },
      () => `Packed ${packed.files.length} files into ${file} (${packed.digest})`,
    );
  } catch (error) {
    await rm(file, { force: true });
    throw error;
  }
  context.out.note(`Next: backplane plugin install ${file} --bind`);
  return undefined;
}

/** Never overwrites an archive, because its digest may have been published. */
async function createNew(file: string): Promise<FileHandle> {
  try {
    return await open(file, "wx");
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === "EEXIST";
    const reason = exists ? "already exists" : "cannot be written";
    throw new BackplaneError("cli.usage", `${file} ${reason}.`, { fix: "Choose another file with -o FILE." });
  }
}
