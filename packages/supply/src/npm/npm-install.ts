/**
 * Installs from the registry in two steps: npm resolves the whole tree into a lock, the lock is vetted, and only then the
 * files of the lock are fetched. The author of a package therefore cannot choose which hosts are contacted.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackplaneError, ProgressStep } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { type Dependencies, findUnresolved } from "./find-unresolved.ts";
import { NPM_FLAGS, type Npm, type NpmWatch, type PreparedNpm } from "./npm-command.ts";
import { NpmFailure } from "./npm-process.ts";
import { type Lock, refusedDependency, vetLock } from "./vet-lock.ts";

const INSTALL = [
  ...NPM_FLAGS,
  "--save-exact",
  "--omit=dev",
  "--no-bin-links",
  "--install-strategy=hoisted",
  // Vetting needs the URL of each archive in the lock.
  "--omit-lockfile-registry-resolved=false",
];

export interface RequestedPackage {
  name: string;
  spec: string;
  /** Whether the spec in package.json is an archive of the operator beside the root. */
  own?: (spec: string) => boolean;
  /** The package.json of such an archive. */
  manifest?: string | null;
}

/** `dir` must have a package.json. It gets a package-lock.json and node_modules. */
export async function npmInstall(
  npm: Npm,
  dir: string,
  requested: RequestedPackage,
  operation: Operation,
): Promise<void> {
  const { spec, own } = requested;
  let download: PreparedNpm | null = null;
  try {
    await writeLock(npm, dir, requested, operation, () => {
      // npm is loaded for the second step while the first one waits for the registry.
      download ??= npm.prepare(dir);
    });
    const { origins } = await npm.settings(dir);
    const locked = JSON.parse(await readFile(join(dir, "package-lock.json"), "utf8")) as Lock;
    vetLock(locked, origins, own);
    // npm has recorded the new versions there as if their files were installed.
    await rm(join(dir, "node_modules", ".package-lock.json"), { force: true });
    // The first entry of the lock is the root.
    const packages = Object.keys(locked.packages ?? {}).length - 1;
    const message = `Downloading ${packages} ${packages === 1 ? "package" : "packages"} for ${spec}`;
    download ??= npm.prepare(dir);
    await download.run(["install", ...INSTALL, "--prefix", dir], watchNpm(operation, "download", message));
  } finally {
    download?.discard();
  }
}

async function writeLock(
  npm: Npm,
  dir: string,
  requested: RequestedPackage,
  operation: Operation,
  answered: () => void,
): Promise<void> {
  const { spec } = requested;
  // A separate cache, which contains exactly the metadata that this tree was resolved from.
  const cache = await mkdtemp(join(tmpdir(), "backplane-npm-cache-"));
  const only = ["--package-lock-only", "--cache", cache, "--prefix", dir];
  const { signal, received } = watchNpm(operation, "resolve", `Resolving the dependencies of ${spec}`);
  const watch = {
    signal,
    received: (bytes: number) => {
      answered();
      received(bytes);
    },
  };
  try {
    await npm.run(["install", ...INSTALL, ...only, "--", spec], dir, watch).catch(async (error: unknown) => {
      throw (await explainUnresolved(error, cache, requested)) ?? error;
    });
  } finally {
    await rm(cache, { recursive: true, force: true });
  }
}

/** Reports the bytes that a run of npm receives. */
export function watchNpm(operation: Operation, step: ProgressStep, message: string): Required<NpmWatch> {
  operation.report({ step, message });
  return {
    signal: operation.signal,
    received: (done) => operation.report({ step, message, done, unit: "bytes" }),
  };
}

async function explainUnresolved(
  error: unknown,
  cache: string,
  { name, manifest = null }: RequestedPackage,
): Promise<BackplaneError | null> {
  if (!(error instanceof NpmFailure)) return null;
  const { output, refused } = error;
  const root = { name, manifest: manifest === null ? null : (JSON.parse(manifest) as Dependencies) };
  const found = await findUnresolved(cache, root, (spec) => {
    if (refused.some((url) => spec === url || originOf(spec) === originOf(url))) return true;
    // The message of npm contains the address, except when it could not start git.
    const plain = spec.replace(/^[a-z+]+:(?:\/\/)?/i, "");
    return output.includes(plain) || (/\bgit\b/.test(output) && !/^(?:https?|file|link):/.test(spec));
  });
  return found === null ? null : refusedDependency(found.path, found.spec);
}

function originOf(text: string): string {
  return URL.canParse(text) ? new URL(text).origin : text;
}
