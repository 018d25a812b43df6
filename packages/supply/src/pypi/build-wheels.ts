/**
 * Builds a wheel from a source archive whose build the operator allows. The archive is verified and unpacked like any
 * untrusted archive. Its code runs only in the sandbox, with build requirements that are locked and downloaded wheels.
 * The files that it leaves behind are untrusted: one is copied out of the folder, and must be a valid wheel of the same
 * package and version.
 */
import { constants, createReadStream, createWriteStream } from "node:fs";
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { BackplaneError, isObject } from "@backplane/contract";
import { type Operation, requireNotCancelled, type SourceBuilds } from "@backplane/ports";
import { parse } from "smol-toml";
import { SERVER_UNPACK_LIMITS, type UnpackLimits } from "../archive/limits.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import type { AllowedBuilds } from "./allowed-builds.ts";
import type { NeededSource, Pip } from "./pip-command.ts";
import { isBuildRequirement, normalizeProject, semanticVersionOf } from "./requirement.ts";
import {
  type BuiltWheel,
  downloadWheels,
  hashFile,
  hashMismatch,
  type LockedFile,
  parseSourceVersion,
  refusedPythonDependency,
  resolveWheels,
  type SourceBuilder,
  withoutPassword,
} from "./resolve-wheels.ts";
import { type EntryPoint, unpackWheel } from "./unpack-wheel.ts";

export interface WheelBuilderOptions {
  pip: Pip;
  /** Null if nothing can be built here. */
  builds: SourceBuilds | null;
  allowed: AllowedBuilds;
  /** The requested server. */
  spec: string;
  /** An existing folder for all files. */
  dir: string;
  operation: Operation;
  limits?: UnpackLimits;
}

/** The table build-system of pyproject.toml (PEP 517 and 518). */
interface BuildSystem {
  requires: string[];
  module: string;
  attribute: string;
  path: string[];
}

/** pip may try several versions of a package before it finds one that fits. */
const MAX_BUILDS = 16;
const MAX_REQUIREMENTS = 64;
const MAX_TEXT = 1024 * 1024;
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const WHEEL_NAME = /^[A-Za-z0-9._+!]+(?:-[A-Za-z0-9._+!]+){4,5}\.whl$/;

/** The build system that pip uses for archives that specify no backend. */
const SETUPTOOLS = { requires: ["setuptools>=40.8.0"], backend: "setuptools.build_meta:__legacy__" };

export async function createWheelBuilder(options: WheelBuilderOptions): Promise<SourceBuilder> {
  const { pip, builds, allowed, dir, operation, limits = SERVER_UNPACK_LIMITS } = options;
  const wheels = join(dir, "built");
  await mkdir(wheels);
  /** By the path of the wheel. */
  const built_wheels = new Map<string, BuiltWheel>();
  const started = new Set<string>();
  let count = 0;

  async function unpackRequirements(tree: string, files: readonly string[]): Promise<void> {
    await mkdir(join(tree, "bin"), { recursive: true });
    const remaining = { ...limits };
    for (const file of files) {
      const unpacked = await unpackWheel(file, tree, remaining);
      remaining.entries -= unpacked.files;
      remaining.unpacked_bytes -= unpacked.bytes;
      await writePrograms(join(tree, "bin"), unpacked.scripts);
    }
  }

  /** Locks and downloads the wheels of requirements. */
  async function lockAndDownload(
    name: string,
    requirements: readonly string[],
    folder: string,
  ): Promise<{ requires: LockedFile[]; files: string[] }> {
    await mkdir(folder);
    if (requirements.length === 0) return { requires: [], files: [] };
    const wanted = { name, requirements, spec: options.spec };
    const locked = await resolveWheels(pip, wanted, folder, operation, builder);
    const downloaded = await downloadWheels(pip, locked, folder, operation);
    return {
      requires: locked.map(({ name, version, file, url, sha256 }) => ({ name, version, file, url, sha256 })),
      files: locked.map((wheel) => wheel.built?.wheel ?? join(downloaded, wheel.file)),
    };
  }

  /** A backend may request further requirements. In that case, the folder that it had access to is not used again. */
  async function buildIn(work: string, source: LockedFile, archive: string): Promise<BuiltWheel> {
    const { name, version } = source;
    if (builds === null) throw new BackplaneError("sandbox.unavailable", "Builds need the sandbox.");
    let requested: string[] | null = null;
    for (const pass of [1, 2]) {
      const sandbox_folder = join(work, `box-${pass}`);
      await mkdir(join(sandbox_folder, "out"), { recursive: true });
      await unpackSource(archive, join(sandbox_folder, "source"), limits);
      const { requires: declared, ...backend } = await readBuildSystem(join(sandbox_folder, "source"), name);
      const { requires, files } = await lockAndDownload(
        name,
        [...declared, ...(requested ?? [])],
        join(work, `requires-${pass}`),
      );
      await unpackRequirements(join(sandbox_folder, "env"), files);
      operation.report({ step: "build", message: `Building ${source.file} in the sandbox` });
      const { python } = await pip.findPython(operation);
      await builds.run({
        folder: sandbox_folder,
        name: `${name} ${version}`,
        python,
        backend,
        requirements_known: requested !== null,
        signal: operation.signal,
      });
      requested = requested === null ? await readRequires(join(sandbox_folder, "out"), name) : null;
      if (requested === null)
        return { wheel: await collectWheel(sandbox_folder, work, source), source, requires };
    }
    throw new Error("unreachable: the second pass of a build never requests requirements");
  }

  async function collectWheel(sandbox_folder: string, work: string, source: LockedFile): Promise<string> {
    const { name, version } = source;
    const file = await findWheel(join(sandbox_folder, "out"), source);
    const [wheel_name = "", wheel_version = ""] = file.split("-");
    requireSameVersion(source, normalizeProject(wheel_name), wheel_version);
    const copy = join(work, file);
    await copyRegularFile(join(sandbox_folder, "out", file), copy, limits.unpacked_bytes, source);
    const { metadata } = await unpackWheel(copy, join(work, "checked"), limits);
    requireSameVersion(
      source,
      normalizeProject(findHeader(metadata, "Name")),
      findHeader(metadata, "Version"),
    );
    const target = join(wheels, file);
    if (built_wheels.has(target)) throw invalidBuild(source, `there are two archives of ${name} ${version}`);
    await rename(copy, target);
    return target;
  }

  const builder: SourceBuilder = {
    getSources: () => ({ names: allowed.names, into: join(dir, `archive-${count}`), wheels }),
    async build(needed, archive) {
      requireNotCancelled(operation);
      const source = lockSource(needed, pip.origins);
      if (started.has(source.url)) {
        const is_built = [...built_wheels.values()].some(({ source: { url } }) => url === source.url);
        throw invalidBuild(
          source,
          is_built
            ? "pip does not accept the wheel for this Python and platform"
            : "its build requires the package itself",
        );
      }
      started.add(source.url);
      const actual = await hashFile(archive);
      if (actual !== source.sha256) throw hashMismatch(source.file, source.sha256, actual);
      if (++count > MAX_BUILDS)
        throw invalidBuild(source, `more than ${MAX_BUILDS} archives would have to be built`);
      const work = join(dir, `build-${count}`);
      await mkdir(work);
      const result = await buildIn(work, source, archive);
      built_wheels.set(result.wheel, result);
      allowed.markBuilt(source.name);
    },
    find: (path) => built_wheels.get(path),
  };
  return builder;
}

/** Throws unless the archive is a file of the index with a SHA-256 and a version in its name. */
function lockSource(
  { name: unnormalized, file, url, sha256 }: NeededSource,
  origins: ReadonlySet<string>,
): LockedFile {
  const name = normalizeProject(unnormalized);
  const plain = withoutPassword(url);
  if (!URL.canParse(url) || !origins.has(new URL(url).origin)) throw refusedPythonDependency([name], plain);
  if (sha256 === null || !/^[0-9a-f]{64}$/.test(sha256))
    throw refusedPythonDependency([name], plain, "a file with a SHA-256");
  const version = parseSourceVersion(file, name);
  if (version === null) throw refusedPythonDependency([name], plain, "a source archive with a version");
  return { name, version, file, url: plain, sha256 };
}

/** If the archive has one folder at its top, as usual, the content of that folder is moved to `into`. */
async function unpackSource(archive: string, into: string, limits: UnpackLimits): Promise<void> {
  const unpacked = `${into}-unpacked`;
  const { files } = await unpackArchive(createReadStream(archive), unpacked, limits);
  const tops = new Set(files.map(({ path }) => path.split("/")[0]!));
  const [top] = tops;
  const nested = tops.size === 1 && files.every(({ path }) => path.includes("/"));
  await rename(nested ? join(unpacked, top!) : unpacked, into);
  await rm(unpacked, { recursive: true, force: true });
}

async function readBuildSystem(folder: string, name: string): Promise<BuildSystem> {
  const text = await readFile(join(folder, "pyproject.toml"), "utf8").catch(() => "");
  let table: unknown;
  try {
    table = text.length > MAX_TEXT ? null : parse(text)["build-system"];
  } catch {
    table = null;
  }
  if (table === undefined) table = SETUPTOOLS;
  const {
    requires,
    "build-backend": backend,
    "backend-path": path = [],
  } = (isObject(table) ? table : {}) as Record<string, unknown>;
  const [module = "", attribute = ""] = (
    backend === undefined ? SETUPTOOLS.backend : typeof backend === "string" ? backend : ""
  ).split(":");
  if (
    !isStrings(requires) ||
    !isStrings(path) ||
    !/^[A-Za-z_][\w.]*$/.test(module) ||
    !/^(?:[A-Za-z_][\w.]*)?$/.test(attribute)
  )
    throw new BackplaneError("package.invalid", `${name} has a pyproject.toml without a valid build-system.`);
  return { requires: checkRequirements(requires, name), module, attribute, path };
}

/** Further requirements that the backend has requested, or null. */
async function readRequires(out: string, name: string): Promise<string[] | null> {
  if (!(await listNames(out)).includes("requires.json")) return null;
  const handle = await open(join(out, "requires.json"), READ).catch(() => null);
  try {
    const info = await handle?.stat();
    if (handle === null || !info?.isFile() || info.size > MAX_TEXT) throw new Error("it is not a small file");
    const parsed: unknown = JSON.parse(await handle.readFile("utf8"));
    if (!isStrings(parsed)) throw new Error("it is not a list");
    return checkRequirements(parsed, name);
  } catch (error) {
    if (error instanceof BackplaneError) throw error;
    throw new BackplaneError("package.invalid", `The build of ${name} requests invalid requirements.`);
  } finally {
    await handle?.close();
  }
}

/**
 * Accepts names with version ranges and markers. Everything else that pip accepts, such as paths, URLs and options,
 * is refused.
 */
function checkRequirements(requirements: readonly string[], name: string): string[] {
  if (requirements.length > MAX_REQUIREMENTS)
    throw new BackplaneError(
      "package.invalid",
      `${name} has more than ${MAX_REQUIREMENTS} build requirements.`,
    );
  const refused = requirements.find((requirement) => !isBuildRequirement(requirement));
  if (refused !== undefined)
    throw refusedPythonDependency([name, "build requirement"], refused, "a package of the Python index");
  return [...requirements];
}

async function findWheel(out: string, source: LockedFile): Promise<string> {
  const wheels = (await listNames(out)).filter((name) => name.endsWith(".whl"));
  if (wheels.length !== 1)
    throw invalidBuild(source, `its build produced ${wheels.length} wheels instead of one`);
  const file = wheels[0]!;
  if (!WHEEL_NAME.test(file)) throw invalidBuild(source, "the name of its wheel is invalid");
  return file;
}

/** Empty unless the path is still a folder and not a link. */
async function listNames(folder: string): Promise<string[]> {
  const info = await lstat(folder).catch(() => null);
  return info?.isDirectory() === true ? await readdir(folder).catch(() => []) : [];
}

/** No process of the sandbox is left, so the file cannot change while it is copied. */
async function copyRegularFile(
  from: string,
  to: string,
  max_bytes: number,
  source: LockedFile,
): Promise<void> {
  const handle = await open(from, READ).catch(() => null);
  if (handle === null) throw invalidBuild(source, "its wheel is not a regular file");
  try {
    const info = await handle.stat();
    if (!info.isFile()) throw invalidBuild(source, "its wheel is not a regular file");
    if (info.size > max_bytes) throw invalidBuild(source, `its wheel is larger than ${max_bytes} bytes`);
    await pipeline(
      handle.createReadStream({ autoClose: false, end: max_bytes }),
      createWriteStream(to, { flags: "wx", mode: 0o600 }),
    );
  } finally {
    await handle.close();
  }
}

function requireSameVersion(source: LockedFile, name: string, version: string): void {
  if (name === source.name && semanticVersionOf(version) === semanticVersionOf(source.version)) return;
  throw invalidBuild(source, `its wheel is ${name} ${version}`);
}

function findHeader(metadata: string | null, name: string): string {
  return new RegExp(`^${name}: *(.*?) *\\r?$`, "m").exec(metadata ?? "")?.[1] ?? "";
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}

/** Writes a program for each console script, because backends start tools such as ninja and cython by name. */
async function writePrograms(bin: string, scripts: ReadonlyMap<string, EntryPoint>): Promise<void> {
  for (const [name, { module, attribute }] of scripts) {
    const [first = ""] = attribute.split(".");
    const lines = [
      "#!/usr/bin/env python3",
      "import sys",
      `from ${module} import ${first}`,
      `sys.exit(${attribute}())`,
      "",
    ];
    const file = join(bin, name);
    await writeFile(file, lines.join("\n"));
    await chmod(file, 0o755);
  }
}

function invalidBuild({ name, version, file }: LockedFile, problem: string): BackplaneError {
  return new BackplaneError(
    "package.invalid",
    `${name} ${version} cannot be built from ${file}: ${problem}.`,
    { fix: "Use a version that is published as a wheel." },
  );
}
