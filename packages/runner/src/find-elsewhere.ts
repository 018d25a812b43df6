/** Looks for an interpreter where plugins may not use it, only to be able to say so. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isExecutableFile } from "./resolve-entrypoint.ts";

export interface Surroundings {
  /** The home of the user who runs the gateway, and the gateway's own PATH. */
  home: string;
  path: string;
}

/** Where the program is, with the home written as `~`; null when it is nowhere we know. */
export async function findElsewhere(
  name: string,
  documented: readonly string[],
  around: Surroundings,
): Promise<string | null> {
  const places = new Set(around.path.split(":").filter((place) => place.startsWith("/")));
  const { home } = around;
  for (const shims of [".pyenv/shims", ".asdf/shims", ".local/bin", ".cargo/bin", ".bun/bin", ".deno/bin"]) {
    places.add(join(home, shims));
  }
  const nvm = join(home, ".nvm/versions/node");
  for (const version of await readdir(nvm).catch(() => [])) places.add(join(nvm, version, "bin"));
  for (const place of ["/opt/homebrew/bin", "/usr/local/sbin", "/snap/bin"]) places.add(place);
  for (const place of places) {
    if (documented.includes(place)) continue;
    const file = join(place, name);
    if (!(await isExecutableFile(file))) continue;
    return home !== "/" && file.startsWith(`${home}/`) ? `~${file.slice(home.length)}` : file;
  }
  return null;
}
