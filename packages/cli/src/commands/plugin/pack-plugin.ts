/** `plugin pack`: packs a folder into an archive or an OCI image layout. */
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import type { CommandContext } from "../../context/context.ts";
import { pluginSourceError, statSource } from "../../install/plugin-source.ts";
import { readSignatureFile } from "../../install/signature-file.ts";
import { moveToNewFolder, newOutputError, unwritableError, writeNewFile } from "./new-output.ts";

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
  const packed = await writeNewFile(file, (target) =>
    context.out.during(`Packing ${folder}`, () => packFolder(path, target.createWriteStream())),
  );
  context.out.data(
    { file, digest: packed.digest, size_bytes: packed.size_bytes, files: packed.files },
    () => `Packed ${packed.files.length} files into ${file} (${packed.digest})`,
  );
  context.out.note(`Next: backplane plugin install ${file} --bind`);
  return undefined;
}

/** Writes the layout as a folder, or as a tar file if the name ends in .tar. */
async function packAsLayout(context: CommandContext, path: string, out: string): Promise<undefined> {
  const { packLayout, tarLayout } = await import("@backplane/supply");
  const signature = readSignatureFile(context.io.cwd, path, undefined);
  const is_tar = out.endsWith(".tar");
  if (existsSync(out)) throw unwritableError(out, "already exists");
  // The layout is complete before it gets its name, so a failure never removes what another process has created there.
  const parent = is_tar ? tmpdir() : dirname(out);
  const temporary = await mkdtemp(join(parent, ".backplane-layout-")).catch((error: unknown) => {
    throw newOutputError(error, out);
  });
  try {
    const layout = join(temporary, "layout");
    const packed = await context.out.during(`Packing ${path}`, async () => {
      const result = await packLayout(path, layout, signature === undefined ? [] : [signature]);
      if (is_tar) await writeNewFile(out, (target) => tarLayout(layout, target.createWriteStream()));
      else await moveToNewFolder(layout, out);
      return result;
    });
    const { manifest_digest, digest, size_bytes, files } = packed;
    context.out.data(
      { file: out, manifest_digest, digest, size_bytes, files },
      () => `Packed ${files.length} files into ${out} (package ${digest}, manifest ${manifest_digest})`,
    );
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  context.out.note(`Next: backplane plugin push ${out} oci://HOST/NAME:TAG`);
  return undefined;
}
