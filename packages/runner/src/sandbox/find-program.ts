/**
 * From a resolved entrypoint to a program that exists inside. An interpreter that leads into a closed home (pyenv,
 * nvm, linked into /usr/local/bin) is not reachable there; that is found here and said, instead of a bare ENOENT.
 */
import { realpath } from "node:fs/promises";
import { BackplaneError } from "@backplane/contract";
import type { Entrypoint } from "../programs/resolve-entrypoint.ts";
import type { SandboxProgram } from "./plan.ts";

/** What of the host every sandbox shows of programs. */
const SYSTEM = ["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"];

export async function findProgram(
  entry: Extract<Entrypoint, { found: true }>,
  home: string,
): Promise<SandboxProgram> {
  const { args, file, label } = entry;
  if (entry.in_package) return { kind: "package", file, args };
  if (label === "node") return { kind: "node", file, args };
  const real = await realpath(file);
  if (SYSTEM.some((folder) => real.startsWith(folder))) return { kind: "system", file, args };
  const shown = home !== "/" && real.startsWith(`${home}/`) ? `~${real.slice(home.length)}` : real;
  throw new BackplaneError(
    "launch_failed",
    `The program "${label}" at ${file} leads to ${shown}, which is closed to plugins in the sandbox. Install it system-wide, below /usr.`,
  );
}
