/** `plugin pack`: packs a folder into an archive or an OCI image layout. */
import { existsSync } from "node:fs";
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { pluginSourceError, statSource } from "../../install/plugin-source.ts";
import { readSignatureFile } from "../../install/signature-file.ts";

export async function packPlugin(
  context: CommandContext,
  options: { out?: string; oci?: boolean },
  folder: string,
): Promise<undefined> {
  const { cwd } = context.io;
  const path = resolve(cwd, folder);
  if (!statSource(path, folder).isDirectory()) throw pluginSourceError(folder, "is not a folder");
  if (options.oci === true)
    return await packAsLayout(context, path, resolve(cwd, options.out ?? `${basename(path)}.oci`));
  const file = resolve(cwd, options.out ?? `${basename(path)}.tgz`);
  const { packFolder } = await import("@backplane/supply");
  const target = await createNewFile(file);
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

/** Writes the layout as a folder, or as a tar file if the name ends in .tar. */
async function packAsLayout(context: CommandContext, path: string, out: string): Promise<undefined> {
  const { packLayout, tarLayout } = await import("@backplane/supply");
  const signature = readSignatureFile(context.io.cwd, path, undefined);
  const is_tar = out.endsWith(".tar");
  if (existsSync(out)) throw unwritableError(out, "already exists");
  const layout = is_tar ? await mkdtemp(join(tmpdir(), "backplane-layout-")) : out;
  try {
    const target = is_tar ? join(layout, "layout") : layout;
    const packed = await context.out.during(`Packing ${path}`, async () => {
      const done = await packLayout(path, target, signature === undefined ? [] : [signature]);
      if (is_tar) await tarLayout(target, (await createNewFile(out)).createWriteStream());
      return done;
    });
    const { manifest_digest, digest, size_bytes, files } = packed;
    context.out.data(
      { file: out, manifest_digest, digest, size_bytes, files },
      () => `Packed ${files.length} files into ${out} (package ${digest}, manifest ${manifest_digest})`,
    );
  } catch (error) {
    await rm(out, { recursive: true, force: true });
    throw error;
  } finally {
    if (is_tar) await rm(layout, { recursive: true, force: true });
  }
  context.out.note(`Next: backplane plugin push ${out} oci://HOST/NAME:TAG`);
  return undefined;
}

/** Never overwrites an archive, because its digest may have been published. */
async function createNewFile(file: string): Promise<FileHandle> {
  try {
    return await open(file, "wx");
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === "EEXIST";
    throw diskFault(error, file) ?? unwritableError(file, exists ? "already exists" : "cannot be written");
  }
}

function unwritableError(file: string, reason: string): BackplaneError {
  return new BackplaneError("cli.usage", `${file} ${reason}.`, { fix: "Choose another file with -o FILE." });
}
