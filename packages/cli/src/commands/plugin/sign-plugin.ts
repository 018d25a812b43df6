/** `plugin sign`: signs a package on this machine with a private key, without a gateway. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { BackplaneError, SIGNATURE_FILE } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { statSource } from "../../install/plugin-source.ts";
import { hostPlatform } from "./registry-commands.ts";

/** Release automation keeps the key in a variable, so that it is never written to a file. */
const KEY_VARIABLE = "VAI_SIGNING_KEY";

export async function signPlugin(
  context: CommandContext,
  options: { key?: string; out?: string },
  source: string,
): Promise<undefined> {
  const { cwd, env } = context.io;
  const path = resolve(cwd, source);
  statSource(path, source);
  const private_key = await readKey(cwd, options.key, env[KEY_VARIABLE]);
  const { openAsLayout, readPluginArtifact, signPackage } = await import("@backplane/supply");
  const temporary = await mkdtemp(join(tmpdir(), "backplane-sign-"));
  try {
    const { store } = await context.out.during(`Packing ${source}`, () => openAsLayout(path, temporary));
    const { package_id, version, digest, files } = await readPluginArtifact(store, hostPlatform());
    if (package_id === null || version === null)
      throw new BackplaneError("package.invalid", "The layout has no package id or no version.");
    const signature = signPackage({ package_id, version, digest, files }, private_key, new Date());
    const is_folder = (await stat(path)).isDirectory();
    const out =
      options.out === undefined
        ? join(is_folder ? path : dirname(path), SIGNATURE_FILE)
        : resolve(cwd, options.out);
    await writeFile(out, `${JSON.stringify(signature, null, 2)}\n`);
    context.out.data(
      { file: out, ...signature },
      () => `Signed ${package_id} ${version} (${digest}) with ${signature.key_id}: ${out}`,
    );
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  return undefined;
}

async function readKey(cwd: string, file: string | undefined, variable: string | undefined): Promise<string> {
  if (file === undefined) {
    if (variable !== undefined && variable !== "") return variable;
    throw new BackplaneError("cli.usage", "No signing key was specified.", {
      fix: `Specify --key FILE or set ${KEY_VARIABLE} to the key. Create one with: backplane key generate`,
    });
  }
  return await readFile(resolve(cwd, file), "utf8").catch(() => {
    throw new BackplaneError("cli.usage", `${file} cannot be read.`, {
      fix: "Specify a readable file with --key.",
    });
  });
}
