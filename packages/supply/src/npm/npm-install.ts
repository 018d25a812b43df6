/**
 * Installs from the registry in two steps: npm resolves the whole tree into a lock, the lock is vetted, and only then
 * are the files of the lock fetched. The author of a package therefore cannot choose which hosts are contacted. One
 * process of npm does both and is paused between them; an npm that cannot be paused is run twice.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackplaneError, ProgressStep } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { type Dependencies, findUnresolved } from "./find-unresolved.ts";
import { NPM_FLAGS, type Npm, type NpmWatch } from "./npm-command.ts";
import { NpmFailure } from "./npm-process.ts";
import { type Lock, refusedDependency, vetLock } from "./vet-lock.ts";

const INSTALL = [
  ...NPM_FLAGS,
  "--save-exact",
  "--package-lock",
  "--omit=dev",
  "--no-bin-links",
  "--install-strategy=hoisted",
  // Vetting needs the URL of each archive in the lock.
  "--omit-lockfile-registry-resolved=false",
];

export interface RequestedPackage {
  name: string;
  spec: string;
  /** Whether the spec in package.json refers to an archive from the operator, which is stored next to the root. */
  isOperatorArchive?: (spec: string) => boolean;
  /** The package.json of such an archive. */
  manifest?: string | null;
  /** Throws if the package must not be installed. Called before its archive is fetched. */
  accept?: (locked: LockedPackage) => Promise<void>;
}

/** The requested package in the lock. npm accepts only an archive that matches `integrity`. */
export interface LockedPackage {
  name: string;
  version: string;
  /** As in the lock, such as `sha512-…`. */
  integrity: string;
}

/** `dir` must have a package.json. It gets a package-lock.json and node_modules. */
export async function npmInstall(
  npm: Npm,
  dir: string,
  requested: RequestedPackage,
  operation: Operation,
): Promise<void> {
  const { spec, isOperatorArchive } = requested;
  // The settings are not read here: `install` reads them while npm loads, and the check then gets them from the cache.
  const check = async (lock: Lock) => vetLock(lock, (await npm.readSettings(dir)).origins, isOperatorArchive);
  const accept = async (lock: Lock) => {
    await check(lock);
    await requested.accept?.(findLocked(lock, requested.name));
  };
  const args = [...INSTALL, "--prefix", dir];
  const resolving = watchNpm(operation, "resolve", `Resolving the dependencies of ${spec}`);
  let watch = resolving;
  let received_before = 0;
  let received_total = 0;
  const vet = async (lock: Lock) => {
    await accept(lock);
    received_before = received_total;
    watch = watchDownload(operation, spec, lock);
  };
  const onReceived = (bytes: number) => {
    received_total = bytes;
    watch.onReceived(bytes - received_before);
  };
  const paused = await npm
    .install([...args, "--", spec], dir, (lock) => vet(lock as Lock), { ...resolving, onReceived })
    .catch(async (error: unknown) => {
      if (watch !== resolving) throw error;
      // The tree that npm did resolve usually contains the spec that it could not fetch.
      if (error instanceof NpmFailure && error.unresolved !== null) await check(error.unresolved as Lock);
      throw (await explainFailure(npm, dir, requested, operation, error)) ?? error;
    });
  if (paused) {
    // Packages that another package bundles are known only after its archive was unpacked.
    await check(await readLock(dir));
    return;
  }
  await npm
    .run(["install", ...args, "--package-lock-only", "--", spec], dir, resolving)
    .catch(async (error: unknown) => {
      throw (await explainFailure(npm, dir, requested, operation, error)) ?? error;
    });
  const lock = await readLock(dir);
  await accept(lock);
  // npm has recorded the new versions there as if their files were installed.
  await rm(join(dir, "node_modules", ".package-lock.json"), { force: true });
  await npm.run(["install", ...args], dir, watchDownload(operation, spec, lock));
}

function findLocked({ packages = {} }: Lock, name: string): LockedPackage {
  const { version = "", integrity = "" } = packages[`node_modules/${name}`] ?? {};
  return { name, version, integrity };
}

async function readLock(dir: string): Promise<Lock> {
  return JSON.parse(await readFile(join(dir, "package-lock.json"), "utf8")) as Lock;
}

function watchDownload(operation: Operation, spec: string, { packages = {} }: Lock): Required<NpmWatch> {
  // The first entry of the lock is the root.
  const count = Object.keys(packages).length - 1;
  const message = `Downloading ${count} ${count === 1 ? "package" : "packages"} for ${spec}`;
  return watchNpm(operation, "download", message);
}

/**
 * Returns an error with the path to the dependency that npm could not resolve; null if that is not known. Resolves the
 * tree again with a separate cache, which then contains exactly the metadata that the tree is made of.
 */
async function explainFailure(
  npm: Npm,
  dir: string,
  requested: RequestedPackage,
  { signal }: Operation,
  error: unknown,
): Promise<BackplaneError | null> {
  if (!(error instanceof NpmFailure) || (error.refused.length === 0 && MISSING.test(error.output)))
    return null;
  const cache = await mkdtemp(join(tmpdir(), "backplane-npm-cache-"));
  const retry_flags = ["--package-lock-only", "--cache", cache, "--prefix", dir];
  try {
    await npm.run(["install", ...INSTALL, ...retry_flags, "--", requested.spec], dir, { signal });
    return null;
  } catch (retry_error) {
    return await explainUnresolved(retry_error, cache, requested);
  } finally {
    await rm(cache, { recursive: true, force: true });
  }
}

/** A package or version that the registry does not have, or refuses. */
const MISSING = /^npm (?:error|ERR!) code (?:E\d{3}|ETARGET|ENOVERSIONS)$/m;

/** Reports the bytes that a run of npm receives. */
export function watchNpm(operation: Operation, step: ProgressStep, message: string): Required<NpmWatch> {
  operation.report({ step, message });
  return {
    signal: operation.signal,
    onReceived: (done) => operation.report({ step, message, done, unit: "bytes" }),
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
  const unresolved = await findUnresolved(cache, root, (spec) => {
    if (refused.some((url) => spec === url || originOf(spec) === originOf(url))) return true;
    // The message of npm contains the address, except when it could not start git.
    const address = spec.replace(/^[a-z+]+:(?:\/\/)?/i, "");
    return output.includes(address) || (/\bgit\b/.test(output) && !/^(?:https?|file|link):/.test(spec));
  });
  return unresolved === null ? null : refusedDependency(unresolved.path, unresolved.spec);
}

function originOf(text: string): string {
  return URL.canParse(text) ? new URL(text).origin : text;
}
