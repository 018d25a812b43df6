/**
 * Creates a package from an MCP server of the Python index, which people start with `uvx NAME`. The wheels of the
 * server and of its dependencies are resolved, locked, downloaded and unpacked without running any of their code,
 * except for builds that the operator allows. The package contains their files, the lock and a program that starts the
 * server.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { type Operation, requireNotCancelled, type SourceBuilds } from "@backplane/ports";
import { checkListing } from "../../archive/check-listing.ts";
import { SERVER_UNPACK_LIMITS, type UnpackLimits } from "../../archive/limits.ts";
import { createCredentialCheck } from "../../credentials/scan-credentials.ts";
import type { HostPlatform } from "../../manifest/host-platform.ts";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import type { AllowedBuilds } from "../../pypi/allowed-builds.ts";
import { createWheelBuilder } from "../../pypi/build-wheels.ts";
import type { FoundPython } from "../../pypi/find-pip.ts";
import type { Pip } from "../../pypi/pip-command.ts";
import { parsePythonRequirement, semanticVersionOf } from "../../pypi/requirement.ts";
import {
  downloadWheels,
  type LockedFile,
  type LockedWheel,
  resolveWheels,
} from "../../pypi/resolve-wheels.ts";
import { type EntryPoint, SITE_PACKAGES, unpackWheel } from "../../pypi/unpack-wheel.ts";
import { findFiles, mapConcurrently, readTreeFile } from "../../tree/read-tree.ts";
import { listTree, type TreeListing } from "../../tree/tree-listing.ts";
import type { PythonServerSource } from "../parts/source-content.ts";
import { buildServerManifest, toPackageId } from "./server-manifest.ts";

const START_FILE = "start.py";
/** The name that PEP 751 specifies. */
const LOCK_FILE = "pylock.toml";

export interface PythonServerOptions extends PythonServerSource {
  allowed: AllowedBuilds;
  /** Null if nothing can be built here. */
  builds: SourceBuilds | null;
}

/** Creates the package in the folder `tree`, which does not exist yet. */
export async function buildPythonServer(
  pip: Pip,
  host: HostPlatform,
  { spec, script, module, secret_slots, allowed, builds }: PythonServerOptions,
  tree: string,
  operation: Operation,
  total_limits: UnpackLimits = SERVER_UNPACK_LIMITS,
): Promise<TreeListing> {
  const requirement = parsePythonRequirement(spec);
  const wheel_folder = `${tree}-wheels`;
  await mkdir(wheel_folder);
  try {
    const python = await pip.findPython(operation);
    const builder =
      allowed.names.length === 0
        ? undefined
        : await createWheelBuilder({ pip, builds, allowed, spec, dir: wheel_folder, operation });
    const requested = { name: requirement.name, requirements: [requirement.requirement], spec };
    const wheels = await resolveWheels(pip, requested, wheel_folder, operation, builder);
    const root = wheels.find(({ name }) => name === requirement.name);
    if (root === undefined) throw unusable(requirement.name, "pip did not resolve it");
    const folder = await downloadWheels(pip, wheels, wheel_folder, operation);
    await mkdir(tree);
    let native = false;
    let scripts = new Map<string, EntryPoint>();
    // All wheels share the limits, so that many dependencies cannot fill the disk together.
    const limits = { ...total_limits };
    // Credentials in a dependency, such as keys for tests, belong to another publisher and are already public.
    const credentials = createCredentialCheck();
    for (const wheel of wheels) {
      requireNotCancelled(operation);
      operation.report({ step: "unpack", message: `Unpacking ${wheel.file}` });
      const scan = wheel === root ? credentials.scan : undefined;
      const unpacked = await unpackWheel(wheel.built?.wheel ?? join(folder, wheel.file), tree, limits, scan);
      limits.entries -= unpacked.files;
      limits.unpacked_bytes -= unpacked.bytes;
      native ||= unpacked.native;
      if (wheel === root) scripts = unpacked.scripts;
    }
    credentials.assertNone("Python package");
    const built_wheels = wheels.filter((wheel) => wheel.built !== undefined);
    const start = module === undefined ? selectScript(root.name, scripts, script) : module;
    await writeFile(join(tree, START_FILE), buildStartProgram(start, native ? python : null));
    await writeFile(join(tree, LOCK_FILE), formatLock(wheels, pip.index_url, python));
    await writeFile(
      join(tree, MANIFEST_FILE),
      buildServerManifest({
        ...describePythonServer(root.name, root.version, built_wheels),
        name: root.name,
        ...(root.summary === undefined ? {} : { description: root.summary }),
        ...(root.license === undefined ? {} : { license: root.license.split("\n")[0]! }),
        source: [
          `pypi:${root.name}==${root.version}`,
          ...(built_wheels.length === 0
            ? []
            : [
                `built from source: ${built_wheels.map(({ name, version }) => `${name}==${version}`).join(", ")}`,
              ]),
        ].join("; "),
        runtime: { protocol: "mcp.stdio", entrypoint: ["python3", "-S", `./${START_FILE}`] },
        ...(native ? { platform: host } : {}),
        secret_slots,
      }),
    );
    const { files } = await findFiles(tree);
    const listing = listTree(await mapConcurrently(files, (path) => readTreeFile(tree, path)));
    checkListing(listing.files, total_limits);
    return listing;
  } finally {
    await rm(wheel_folder, { recursive: true, force: true });
  }
}

/**
 * A build has different content from a wheel of the same version, so the names of built packages become build metadata
 * of the version.
 */
export function describePythonServer(
  name: string,
  version: string,
  built_wheels: readonly { name: string }[] = [],
): { package_id: string; version: string } {
  const semantic = semanticVersionOf(version);
  const names = built_wheels.map((wheel) => wheel.name).sort();
  const suffix = names.length === 0 ? "" : `${semantic.includes("+") ? "." : "+"}built.${names.join(".")}`;
  return { package_id: toPackageId("pypi", name), version: `${semantic}${suffix}` };
}

/** Selects the requested script or, like uvx, the one that is named like the package, or the only one. */
export function selectScript(
  name: string,
  scripts: ReadonlyMap<string, EntryPoint>,
  script?: string,
): EntryPoint {
  const only = scripts.size === 1 ? [...scripts.values()][0] : undefined;
  const entry_point = script === undefined ? (scripts.get(name) ?? only) : scripts.get(script);
  if (entry_point !== undefined) return entry_point;
  const names = [...scripts.keys()].sort().join(", ");
  if (names === "")
    throw unusable(
      name,
      "it has no program to start",
      "Specify the package that the server's instructions run with uvx, not a library.",
    );
  if (script !== undefined)
    throw unusable(name, `it has no program ${script}`, `Use --script with one of: ${names}.`);
  throw unusable(
    name,
    `it has several programs: ${names}`,
    `Choose one: backplane plugin install pypi:${name} --script NAME`,
  );
}

/**
 * Python runs without the packages of the host (-S), as in a virtual environment. `built_for` is the Python that the
 * native code of the package was built for.
 */
function buildStartProgram(start: EntryPoint | string, built_for: FoundPython | null): string {
  const [major, minor] = (built_for?.version ?? "").split(".");
  return [
    '"""Starts the MCP server of this package. Written by Backplane."""',
    "import importlib, os, runpy, site, sys",
    ...(built_for === null
      ? []
      : [
          `if sys.version_info[:2] != (${major}, ${minor}):`,
          `    sys.exit("This package was installed for Python ${major}.${minor}, and this is Python %d.%d. Install it again." % sys.version_info[:2])`,
        ]),
    "here = os.path.dirname(os.path.abspath(__file__))",
    `packages = os.path.join(here, ${JSON.stringify(SITE_PACKAGES)})`,
    "# In place of the folder of this file. Processes that the server starts find its modules too.",
    "sys.path[0] = packages",
    'os.environ["PYTHONPATH"] = packages',
    "site.addsitedir(packages)",
    "site.setquit()",
    ...(typeof start === "string"
      ? [`runpy.run_module(${JSON.stringify(start)}, run_name="__main__", alter_sys=True)`]
      : [
          `target = importlib.import_module(${JSON.stringify(start.module)})`,
          `for name in ${JSON.stringify(start.attribute)}.split("."):`,
          "    target = getattr(target, name)",
          "sys.exit(target())",
        ]),
    "",
  ].join("\n");
}

/** A lock file in the format of PEP 751. */
function formatLock(wheels: readonly LockedWheel[], index_url: string, python: FoundPython): string {
  const index = new URL(index_url);
  index.username = "";
  index.password = "";
  const quote = (text: string) => JSON.stringify(text);
  const sorted = [...wheels].sort((a, b) => (a.name < b.name ? -1 : 1));
  return [
    'lock-version = "1.0"',
    'created-by = "backplane"',
    `requires-python = ${quote(`==${python.version}.*`)}`,
    ...sorted.flatMap(({ name, version, built, ...file }) => [
      "",
      "[[packages]]",
      `name = ${quote(name)}`,
      `version = ${quote(version)}`,
      `index = ${quote(index.href)}`,
      ...(built === undefined
        ? [`wheels = [${formatLockedFile(file)}]`]
        : [
            `sdist = ${formatLockedFile(file)}`,
            "",
            "[packages.tool.backplane]",
            ...formatRequires(built.requires),
          ]),
    ]),
    "",
  ].join("\n");
}

function formatLockedFile({ file, url, sha256 }: Pick<LockedFile, "file" | "url" | "sha256">): string {
  const [name, location, hash] = [file, url, sha256].map((text) => JSON.stringify(text));
  return `{ name = ${name}, url = ${location}, hashes = { sha256 = ${hash} } }`;
}

/** PEP 751 has no field for the files that a package was built with. */
function formatRequires(requires: readonly LockedFile[]): string[] {
  return ["build-requires = [", ...requires.map((file) => `  ${formatLockedFile(file)},`), "]"];
}

function unusable(name: string, reason: string, fix?: string): BackplaneError {
  const message = `${name} cannot be installed as an MCP server: ${reason}.`;
  return new BackplaneError("package.invalid", message, fix === undefined ? {} : { fix });
}
