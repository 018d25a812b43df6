/**
 * Installs from the registry in two steps: npm resolves the whole tree into a lock, the lock is vetted, and only then
 * the files are fetched, which are those of the lock. The tree of a package's author decides nothing about where to ask.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackplaneError } from "@backplane/contract";
import { type Dependencies, findUnresolved } from "./find-unresolved.ts";
import { NPM_FLAGS, type Npm, NpmFailure } from "./npm-command.ts";
import { type Lock, refusedDependency, vetLock } from "./vet-lock.ts";

const INSTALL = [
  ...NPM_FLAGS,
  "--save-exact",
  "--omit=dev",
  "--no-bin-links",
  "--install-strategy=hoisted",
  // The vetting reads from the lock where each archive comes from.
  "--omit-lockfile-registry-resolved=false",
];

export interface Wanted {
  name: string;
  spec: string;
  /** An archive of the operator's beside the root, by its spec in package.json. */
  own?: (spec: string) => boolean;
  /** The package.json in such an archive. */
  manifest?: string | null;
}

/** `dir` has a package.json and gets a package-lock.json and node_modules. */
export async function npmInstall(npm: Npm, dir: string, wanted: Wanted): Promise<void> {
  const { spec, own } = wanted;
  // A cache of its own: what npm has read there is what this tree was resolved from.
  const cache = await mkdtemp(join(tmpdir(), "backplane-npm-cache-"));
  try {
    const lock = [
      "install",
      ...INSTALL,
      "--package-lock-only",
      "--cache",
      cache,
      "--prefix",
      dir,
      "--",
      spec,
    ];
    await npm.run(lock, dir).catch(async (error: unknown) => {
      throw (await unresolved(error, cache, wanted)) ?? error;
    });
  } finally {
    await rm(cache, { recursive: true, force: true });
  }
  const { origins } = await npm.settings(dir);
  vetLock(JSON.parse(await readFile(join(dir, "package-lock.json"), "utf8")) as Lock, origins, own);
  // npm has noted the new versions there as if their files were in place.
  await rm(join(dir, "node_modules", ".package-lock.json"), { force: true });
  await npm.run(["install", ...INSTALL, "--prefix", dir], dir);
}

async function unresolved(
  error: unknown,
  cache: string,
  { name, manifest = null }: Wanted,
): Promise<BackplaneError | null> {
  if (!(error instanceof NpmFailure)) return null;
  const { output, refused } = error;
  const root = { name, manifest: manifest === null ? null : (JSON.parse(manifest) as Dependencies) };
  const found = await findUnresolved(cache, root, (spec) => {
    if (refused.some((url) => spec === url || originOf(spec) === originOf(url))) return true;
    // npm repeats the address in its own words, except where it could not start git.
    const plain = spec.replace(/^[a-z+]+:(?:\/\/)?/i, "");
    return output.includes(plain) || (/\bgit\b/.test(output) && !/^(?:https?|file|link):/.test(spec));
  });
  return found === null ? null : refusedDependency(found.path, found.spec);
}

function originOf(text: string): string {
  return URL.canParse(text) ? new URL(text).origin : text;
}
