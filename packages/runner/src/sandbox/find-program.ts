/**
 * Finds the program of an entrypoint inside the sandbox. An interpreter in /usr/local/bin that links into a private
 * home folder (pyenv, nvm) does not exist there; this is explained here instead of failing with ENOENT.
 */
import { realpath } from "node:fs/promises";
import { BackplaneError } from "@backplane/contract";
import type { Entrypoint } from "../programs/resolve-entrypoint.ts";
import type { SandboxProgram } from "./plan.ts";

/** Program folders of the host that are visible in every sandbox. */
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
  const path_text = home !== "/" && real.startsWith(`${home}/`) ? `~${real.slice(home.length)}` : real;
  throw new BackplaneError(
    "launch_failed",
    `The program "${label}" at ${file} is a link to ${path_text}, which is not visible in the sandbox. Install it system-wide, below /usr.`,
  );
}
