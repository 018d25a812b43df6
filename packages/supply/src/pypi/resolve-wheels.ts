/**
 * Resolves a Python package into a list of wheels with their hashes, checks the list, and only then downloads exactly these
 * files. pip resolves; no code of a package runs.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { type FoundPython, type Pip, PipFailure } from "./pip-command.ts";
import { normalizeProject, type PythonRequirement } from "./requirement.ts";

export interface LockedWheel {
  /** Normalized. */
  name: string;
  version: string;
  file: string;
  url: string;
  sha256: string;
  summary: string | undefined;
  license: string | undefined;
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

/** The wheels of the package and of its dependencies, in the order in which pip would install them. */
export async function resolveWheels(
  pip: Pip,
  requirement: PythonRequirement,
  dir: string,
  operation: Operation,
): Promise<LockedWheel[]> {
  const file = join(dir, "report.json");
  const python = await pip.python();
  const args = ["--dry-run", "--ignore-installed", "--report", file, "--", requirement.requirement];
  const message = `Resolving the dependencies of ${requirement.requirement}`;
  try {
    await pip.run(["install", ...args], dir, { operation, step: "resolve", message });
  } catch (error) {
    throw explainFailure(error, requirement, python);
  }
  const { install } = JSON.parse(await readFile(file, "utf8")) as { install: ReportItem[] };
  return vetReport(install, requirement.name, pip.origins);
}

/** Throws `package.dependency_refused` unless every file is a wheel of the index with a SHA-256. */
export function vetReport(
  items: readonly ReportItem[],
  root: string,
  origins: ReadonlySet<string>,
): LockedWheel[] {
  const paths = pathsOf(items, root);
  return items.map(({ download_info: { url, archive_info }, is_direct, metadata }) => {
    const name = normalizeProject(metadata.name);
    const plain = withoutPassword(url);
    const path = paths.get(name) ?? [root, name];
    if (is_direct === true || !URL.canParse(url) || !origins.has(new URL(url).origin))
      throw refusedPythonDependency(path, plain);
    const file = fileNameOf(new URL(url));
    if (!/^[A-Za-z0-9._+!-]+\.whl$/.test(file)) throw refusedPythonDependency(path, plain, "a wheel");
    const sha256 = archive_info?.hashes?.sha256 ?? /^sha256=(.+)$/.exec(archive_info?.hash ?? "")?.[1];
    if (sha256 === undefined || !/^[0-9a-f]{64}$/.test(sha256))
      throw refusedPythonDependency(path, plain, "a file with a SHA-256");
    const { version, summary, license } = metadata;
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

/** The wheels are in the folder `into` afterwards, each under its file name. */
export async function downloadWheels(
  pip: Pip,
  wheels: readonly LockedWheel[],
  dir: string,
  operation: Operation,
): Promise<string> {
  const into = join(dir, "wheels");
  const lock = join(dir, "requirements.txt");
  await mkdir(into);
  const lines = wheels.map(({ name, version, sha256 }) => `${name}==${version} --hash=sha256:${sha256}\n`);
  await writeFile(lock, lines.join(""));
  const message = `Downloading ${wheels.length} ${wheels.length === 1 ? "wheel" : "wheels"}`;
  const args = ["--no-deps", "--require-hashes", "--requirement", lock, "--dest", into];
  try {
    await pip.run(["download", ...args], dir, { operation, step: "download", message });
  } catch (error) {
    throw wrongHash(error) ?? error;
  }
  for (const wheel of wheels) {
    const sha256 = await hashFile(join(into, wheel.file)).catch(() => null);
    if (sha256 !== wheel.sha256) throw hashMismatch(wheel.file, wheel.sha256, sha256);
  }
  return into;
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Uint8Array);
  return hash.digest("hex");
}

function refusedPythonDependency(
  path: readonly string[],
  source: string,
  expected = "a file of the Python index",
): BackplaneError {
  const shown = source.length > 200 ? `${source.slice(0, 200)}…` : source;
  return new BackplaneError(
    "package.dependency_refused",
    `${path.join(" > ")} comes from ${JSON.stringify(shown)}, which is not ${expected}.`,
    { details: { path: [...path], source: shown } },
  );
}

/** `actual` is null if the file is missing. */
function hashMismatch(file: string, expected: string, actual: string | null): BackplaneError {
  const message = `${file} does not have the SHA-256 that the Python index announces for it.`;
  const details = {
    file,
    expected: `sha256:${expected}`,
    actual: actual === null ? null : `sha256:${actual}`,
  };
  return new BackplaneError("package.digest_mismatch", message, { details });
}

function wrongHash(error: unknown): BackplaneError | null {
  if (!(error instanceof PipFailure)) return null;
  const text = error.log + error.message;
  if (!/DO NOT MATCH THE HASHES/.test(text)) return null;
  const [, file] = /([A-Za-z0-9._+!-]+\.whl)(?!.*\.whl)/s.exec(error.log) ?? [];
  const [, expected = "unknown"] = /Expected sha256 ([0-9a-f]{64})/.exec(text) ?? [];
  const [, actual = null] = /Got\s+([0-9a-f]{64})/.exec(text) ?? [];
  return hashMismatch(file ?? "A wheel", expected, actual);
}

/** The shortest path from the requested package to each package. */
function pathsOf(items: readonly ReportItem[], root: string): Map<string, string[]> {
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

/** The message of pip says only that nothing matches; its log says which files it has skipped and why. */
function explainFailure(error: unknown, requirement: PythonRequirement, python: FoundPython): unknown {
  if (!(error instanceof PipFailure)) return error;
  if (error.direct !== null)
    return refusedPythonDependency(error.direct.path.map(normalizeProject), error.direct.url);
  const [refused] = error.refused;
  if (refused !== undefined) return refusedPythonDependency([requirement.name], refused);
  const mismatch = wrongHash(error);
  if (mismatch !== null) return mismatch;
  const other = /Package '([^']+)' requires a different Python: \S+ not in '([^']+)'/.exec(error.log);
  if (other !== null) return wrongPython(other[1]!, python, other[2]!);
  const wanted = /No matching distribution found for ([A-Za-z0-9._-]+)/.exec(error.log)?.[1];
  if (wanted === undefined) return error;
  // The search for this package is the last one of the log.
  const log = error.log.slice(error.log.lastIndexOf("location(s) to search for versions of"));
  const range = /Link requires a different Python \(\S+ not in: '([^']+)'\)/.exec(log)?.[1];
  if (range !== undefined) return wrongPython(wanted, python, range);
  const tags = [...log.matchAll(/none of the wheel's tags \(([^)]+)\)/g)].flatMap(([, list]) =>
    list!.split(", "),
  );
  if (tags.length > 0) {
    const supported = [...new Set(tags)].sort();
    return new BackplaneError(
      "package.platform",
      `${wanted} has no wheel for Python ${python.version} on ${process.platform} ${process.arch}; it has ${supported.slice(0, 6).join(", ")}.`,
      { details: { supported }, fix: "Use another version of the package, or another version of python3." },
    );
  }
  if (/No sources permitted for/.test(log)) return onlySource(wanted);
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
    `${name} needs Python ${range}, and plugins run with Python ${python.version}.`,
    {
      details: { supported: [`python ${range}`] },
      fix: `Install an older version of the package (pypi:${name}==VERSION), or another python3 below /usr.`,
    },
  );
}

function onlySource(name: string): BackplaneError {
  return new BackplaneError(
    "package.invalid",
    `${name} is published only as a source archive, which would have to be built.`,
    { fix: "Use a version that is published as a wheel." },
  );
}

function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  url.username = "";
  url.password = "";
  url.hash = "";
  return url.href;
}
