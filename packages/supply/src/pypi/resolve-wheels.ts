/**
 * Resolves a Python package into a list of wheels with their hashes, checks the list, and only then downloads exactly
 * these files. pip resolves; no code of a package runs. Where pip chooses a source archive that may be built, a builder
 * builds a wheel from it in the sandbox, and pip starts again.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import type { FoundPython } from "./find-pip.ts";
import { type AllowedSources, type NeededSource, type Pip, PipFailure } from "./pip-command.ts";
import { normalizeProject } from "./requirement.ts";

/** A file of the index: a wheel, or the source archive that one was built from. */
export interface LockedFile {
  /** Normalized. */
  name: string;
  version: string;
  file: string;
  url: string;
  sha256: string;
}

export interface LockedWheel extends LockedFile {
  summary: string | undefined;
  license: string | undefined;
  built?: BuiltWheel;
}

export interface BuiltWheel {
  /** The path of the wheel. */
  wheel: string;
  source: LockedFile;
  /** The wheels that it was built with. */
  requires: readonly LockedFile[];
}

/** Requirements as pip reads them, and the package that they belong to. */
export interface WantedWheels {
  /** Normalized. */
  name: string;
  requirements: readonly string[];
  /** The requested server, for the command that allows a build. */
  spec: string;
}

/** Builds wheels from source archives. */
export interface SourceBuilder {
  /** Returns the archives that pip may choose next. */
  getSources(): AllowedSources & { into: string };
  /** `archive` is the downloaded file. */
  build(needed: NeededSource, archive: string): Promise<void>;
  /** The build that produced the wheel at this path. */
  find(path: string): BuiltWheel | undefined;
}

interface ReportItem {
  download_info: { url: string; archive_info?: { hashes?: Record<string, string>; hash?: string } };
  is_direct?: boolean;
  metadata: {
    name: string;
    version: string;
    requires_dist?: string[];
    summary?: string;
    license?: string;
  };
}

/** Returns the wheels of the package and of its dependencies, in the order in which pip would install them. */
export async function resolveWheels(
  pip: Pip,
  wanted: WantedWheels,
  dir: string,
  operation: Operation,
  builder?: SourceBuilder,
): Promise<LockedWheel[]> {
  const file = join(dir, "report.json");
  const python = await pip.findPython(operation);
  const args = ["--dry-run", "--ignore-installed", "--report", file, "--", ...wanted.requirements];
  const message = `Resolving the dependencies of ${wanted.requirements.join(" ")}`;
  for (;;) {
    const sources = builder?.getSources();
    try {
      await pip.run(["install", ...args], dir, { operation, step: "resolve", message, sources });
      break;
    } catch (error) {
      if (!(error instanceof PipFailure) || error.source === null || sources === undefined)
        throw explainFailure(error, wanted, python, sources?.names ?? []);
      await builder!.build(error.source, sources.into);
    }
  }
  const { install } = JSON.parse(await readFile(file, "utf8")) as { install: ReportItem[] };
  return vetReport(install, wanted.name, pip.origins, (path) => builder?.find(path));
}

/** Finds the version that an installation without further flags would choose. `built` is true if it has no wheel. */
export async function findVersion(
  pip: Pip,
  wanted: WantedWheels,
  dir: string,
  operation: Operation,
): Promise<{ version: string; built: boolean }> {
  const file = join(dir, "report.json");
  const args = [
    "--dry-run",
    "--no-deps",
    "--ignore-installed",
    "--report",
    file,
    "--",
    ...wanted.requirements,
  ];
  const message = `Looking for ${wanted.requirements.join(" ")}`;
  const run = (sources?: AllowedSources) =>
    pip.run(["install", ...args], dir, { operation, step: "resolve", message, sources });
  try {
    await run();
  } catch (error) {
    if (!(error instanceof PipFailure)) throw error;
    if (!SKIPPED_SOURCE.test(error.log))
      throw explainFailure(error, wanted, await pip.findPython(operation), []);
    const stopped = await run({ names: [wanted.name], into: null, wheels: dir }).catch(
      (failure: unknown) => failure,
    );
    const source = stopped instanceof PipFailure ? stopped.source : null;
    const version = source === null ? null : parseSourceVersion(source.file, wanted.name);
    if (version === null) throw explainFailure(error, wanted, await pip.findPython(operation), []);
    return { version, built: true };
  }
  const { install } = JSON.parse(await readFile(file, "utf8")) as { install: ReportItem[] };
  const [locked] = vetReport(install, wanted.name, pip.origins);
  return { version: locked!.version, built: false };
}

/** pip logs this if there is a source archive that it may not use. */
const SKIPPED_SOURCE = /No sources permitted for/;
const SOURCE_FILE = /^([A-Za-z0-9._+!-]+?)(?:\.tar\.gz|\.tgz|\.zip|\.tar\.bz2|\.tar\.xz|\.tar)$/;

/** The version in the name of a source archive; null if the name is not `NAME-VERSION.tar.gz` or the like. */
export function parseSourceVersion(file: string, name: string): string | null {
  const stem = SOURCE_FILE.exec(file)?.[1] ?? "";
  for (let dash = stem.indexOf("-"); dash > 0; dash = stem.indexOf("-", dash + 1)) {
    const version = stem.slice(dash + 1);
    if (normalizeProject(stem.slice(0, dash)) === name && /^v?\d/.test(version)) return version;
  }
  return null;
}

/**
 * Throws `package.dependency_refused` unless every file is a wheel that `findBuilt` knows or a wheel of the index with
 * a SHA-256.
 */
export function vetReport(
  items: readonly ReportItem[],
  root: string,
  origins: ReadonlySet<string>,
  findBuilt: (path: string) => BuiltWheel | undefined = () => undefined,
): LockedWheel[] {
  const paths = shortestPaths(items, root);
  return items.map(({ download_info: { url, archive_info }, is_direct, metadata }) => {
    const name = normalizeProject(metadata.name);
    const plain = withoutPassword(url);
    const { version, summary, license } = metadata;
    const built = url.startsWith("file:") && is_direct !== true ? findBuilt(fileURLToPath(url)) : undefined;
    if (built !== undefined) return { ...built.source, version, summary, license, built };
    const path = paths.get(name) ?? [root, name];
    if (is_direct === true || !URL.canParse(url) || !origins.has(new URL(url).origin))
      throw refusedPythonDependency(path, plain);
    const file = fileNameOf(new URL(url));
    if (!/^[A-Za-z0-9._+!-]+\.whl$/.test(file)) throw refusedPythonDependency(path, plain, "a wheel");
    const sha256 = archive_info?.hashes?.sha256 ?? /^sha256=(.+)$/.exec(archive_info?.hash ?? "")?.[1];
    if (sha256 === undefined || !/^[0-9a-f]{64}$/.test(sha256))
      throw refusedPythonDependency(path, plain, "a file with a SHA-256");
    return { name, version, file, url: plain, sha256, summary, license };
  });
}

/** Empty if the path cannot be decoded. */
function fileNameOf({ pathname }: URL): string {
  try {
    return decodeURIComponent(posix.basename(pathname));
  } catch {
    return "";
  }
}

/** Downloads the wheels that were not built. They are in the returned folder afterwards, each under its file name. */
export async function downloadWheels(
  pip: Pip,
  all: readonly LockedWheel[],
  dir: string,
  operation: Operation,
): Promise<string> {
  const into = join(dir, "wheels");
  const lock = join(dir, "requirements.txt");
  await mkdir(into);
  const wheels = all.filter(({ built }) => built === undefined);
  if (wheels.length === 0) return into;
  const lines = wheels.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}\n`);
  await writeFile(lock, lines.join(""));
  const message = `Downloading ${wheels.length} ${wheels.length === 1 ? "wheel" : "wheels"}`;
  const args = ["--no-deps", "--require-hashes", "--requirement", lock, "--dest", into];
  try {
    await pip.run(["download", ...args], dir, { operation, step: "download", message });
  } catch (error) {
    throw toHashMismatch(error) ?? error;
  }
  for (const wheel of wheels) {
    const sha256 = await hashFile(join(into, wheel.file)).catch(() => null);
    if (sha256 !== wheel.sha256) throw hashMismatch(wheel.file, wheel.sha256, sha256);
  }
  return into;
}

export async function hashFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}

export function refusedPythonDependency(
  path: readonly string[],
  source: string,
  expected = "a file of the Python index",
): BackplaneError {
  const source_text = source.length > 200 ? `${source.slice(0, 200)}…` : source;
  return new BackplaneError(
    "package.dependency_refused",
    `${path.join(" > ")} comes from ${JSON.stringify(source_text)}, which is not ${expected}.`,
    { details: { path: [...path], source: source_text } },
  );
}

/** `actual` is null if the file is missing. */
export function hashMismatch(file: string, expected: string, actual: string | null): BackplaneError {
  const message = `${file} does not have the SHA-256 that the Python index announces for it.`;
  const details = {
    file,
    expected: `sha256:${expected}`,
    actual: actual === null ? null : `sha256:${actual}`,
  };
  return new BackplaneError("package.digest_mismatch", message, { details });
}

function toHashMismatch(error: unknown): BackplaneError | null {
  if (!(error instanceof PipFailure)) return null;
  const text = error.log + error.message;
  if (!/DO NOT MATCH THE HASHES/.test(text)) return null;
  const files = [...error.log.matchAll(/[A-Za-z0-9._+!-]+\.(?:whl|tar\.gz|zip)\b/g)];
  const file = files.at(-1)?.[0];
  const [, expected = "unknown"] = /Expected sha256 ([0-9a-f]{64})/.exec(text) ?? [];
  const [, actual = null] = /Got\s+([0-9a-f]{64})/.exec(text) ?? [];
  return hashMismatch(file ?? "A file", expected, actual);
}

/** The shortest path from the requested package to each package. */
function shortestPaths(items: readonly ReportItem[], root: string): Map<string, string[]> {
  const known = new Map(items.map(({ metadata }) => [normalizeProject(metadata.name), metadata]));
  const paths = new Map([[root, [root]]]);
  const queue = [root];
  for (let from = queue.shift(); from !== undefined; from = queue.shift()) {
    for (const required of known.get(from)?.requires_dist ?? []) {
      const name = normalizeProject(/^[A-Za-z0-9._-]+/.exec(required)?.[0] ?? "");
      if (!known.has(name) || paths.has(name)) continue;
      paths.set(name, [...paths.get(from)!, name]);
      queue.push(name);
    }
  }
  return paths;
}

/** pip's message says only that nothing matches; its log lists the files that it skipped, and why. */
function explainFailure(
  error: unknown,
  { name, spec }: WantedWheels,
  python: FoundPython,
  allowed: readonly string[],
): unknown {
  if (!(error instanceof PipFailure)) return error;
  if (error.direct !== null)
    return refusedPythonDependency(error.direct.path.map(normalizeProject), error.direct.url);
  const [refused] = error.refused;
  if (refused !== undefined) return refusedPythonDependency([name], refused);
  const mismatch = toHashMismatch(error);
  if (mismatch !== null) return mismatch;
  const version_mismatch = /Package '([^']+)' requires a different Python: \S+ not in '([^']+)'/.exec(
    error.log,
  );
  if (version_mismatch !== null) return wrongPython(version_mismatch[1]!, python, version_mismatch[2]!);
  const wanted = /No matching distribution found for ([A-Za-z0-9._-]+)/.exec(error.log)?.[1];
  if (wanted === undefined) return error;
  // The search for this package is the last one of the log.
  const log = error.log.slice(error.log.lastIndexOf("location(s) to search for versions of"));
  const range = /Link requires a different Python \(\S+ not in: '([^']+)'\)/.exec(log)?.[1];
  if (range !== undefined) return wrongPython(wanted, python, range);
  const tags = [...log.matchAll(/none of the wheel's tags \(([^)]+)\)/g)].flatMap(([, list]) =>
    list!.split(", "),
  );
  const has_source = SKIPPED_SOURCE.test(log);
  const command = buildCommand(spec, [...allowed, normalizeProject(wanted)]);
  if (tags.length > 0) {
    const supported = [...new Set(tags)].sort();
    return new BackplaneError(
      "package.platform",
      `${wanted} has no wheel for Python ${python.version} on ${process.platform} ${process.arch}; it has ${supported.slice(0, 6).join(", ")}.`,
      {
        details: { supported },
        fix: `Use another version of the package, or another version of python3.${has_source ? ` Or build it from its source archive, in the sandbox without network access or secrets: ${command}` : ""}`,
      },
    );
  }
  if (has_source) return sourceOnly(wanted, command);
  return new BackplaneError(
    "plugin.source_invalid",
    `${wanted} is not in the Python index, or not in this version.`,
    {
      fix: "Check the name and the version. The index is set by pypi.index_url.",
    },
  );
}

function wrongPython(name: string, python: FoundPython, range: string): BackplaneError {
  return new BackplaneError(
    "package.platform",
    `${name} needs Python ${range}, but plugins run with Python ${python.version}.`,
    {
      details: { supported: [`python ${range}`] },
      fix: `Install an older version of the package (pypi:${name}==VERSION), or another python3 below /usr.`,
    },
  );
}

function sourceOnly(name: string, command: string): BackplaneError {
  return new BackplaneError(
    "package.invalid",
    `${name} is published only as a source archive. Building it runs its code.`,
    {
      fix: `Use a version that is published as a wheel, or build it in the sandbox, without network access or secrets: ${command}`,
    },
  );
}

/** The command that installs the server and allows these packages to be built. */
export function buildCommand(spec: string, names: readonly string[]): string {
  const flags = [...new Set(names)].map((name) => `--allow-build ${name}`);
  return `backplane plugin install pypi:${spec} ${flags.join(" ")}`;
}

/** Removes the login and the fragment from a URL. */
export function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  url.username = "";
  url.password = "";
  url.hash = "";
  return url.href;
}
