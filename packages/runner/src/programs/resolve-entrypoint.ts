/**
 * Resolves `runtime.entrypoint` to an absolute file: `node` is the gateway's own Node; a bare name is looked up on the
 * documented PATH and then in the package; anything else is a file whose real path is inside the package. A shell or
 * the host's PATH is never used.
 */
import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { isAbsolute, join, resolve, sep } from "node:path";
import type { Interpreters } from "../ports/settings.ts";

export type Entrypoint =
  | { found: true; file: string; args: string[]; label: string; in_package: boolean }
  | { found: false; why: "no_such_name" | "no_such_file" | "outside" | "folder"; label: string };

export async function resolveEntrypoint(
  entrypoint: readonly string[],
  folder: string,
  interpreters: Interpreters,
): Promise<Entrypoint> {
  const [program = "", ...args] = entrypoint;
  const label = program;
  if (program === "node") return { found: true, file: interpreters.node, args, label, in_package: false };
  if (!program.includes("/")) {
    for (const directory of interpreters.path) {
      const file = join(directory, program);
      if (await isExecutableFile(file)) return { found: true, file, args, label, in_package: false };
    }
  }
  if (isAbsolute(program)) return { found: false, why: "outside", label };
  const root = await realpath(folder);
  let file: string;
  try {
    file = await realpath(resolve(root, program));
  } catch {
    return { found: false, why: program.includes("/") ? "no_such_file" : "no_such_name", label };
  }
  if (!file.startsWith(root + sep)) return { found: false, why: "outside", label };
  if ((await stat(file)).isDirectory()) return { found: false, why: "folder", label };
  return { found: true, file, args, label, in_package: true };
}

export async function isExecutableFile(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
