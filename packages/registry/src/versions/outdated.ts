/** Reports for each package whether a version newer than the one in use is installed or available at its source. */
import { compareVersions, type OutdatedPackage, type Package, toBackplaneError } from "@backplane/contract";
import {
  type Caller,
  type InstallationSource,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireNotCancelled,
  requireOperator,
  unwatchedOperation,
} from "@backplane/ports";
import { readAllPages } from "../packages/read-all-pages.ts";
import { listVersionsInUse } from "../packages/versions-in-use.ts";
import { type AvailableVersion, type FindNewest, UPGRADE_HINT, unknownVersion } from "./available-version.ts";
import { createEntryVersions } from "./entry-versions.ts";
import { createRegistryVersions } from "./registry-versions.ts";

/** Why a source cannot be queried for versions. */
const WITHOUT_VERSIONS: Partial<Record<Package["origin"], string>> = {
  folder: `A folder does not list the available versions. ${UPGRADE_HINT}`,
  upload: `An archive does not list the available versions. ${UPGRADE_HINT}`,
  image:
    "A tag does not list the available versions. To upgrade to the image that a tag refers to: backplane plugin upgrade --from image:NAME:TAG.",
  workspace:
    "The package is linked to a folder, which does not list the available versions. Changes are loaded on save.",
};

type Installations = Pick<Kernel["installations"], "inspect">;

export function createOutdated(
  deps: KernelDeps,
  installations: Installations,
): Kernel["packages"]["listOutdated"] {
  const { store } = deps;

  /** Keyed by the origin of a package. The sources of other origins cannot be queried for versions. */
  const lookups: Partial<Record<Package["origin"], FindNewest>> = {
    npm: inspectNewest(
      installations,
      (name) => ({ kind: "npm", spec: `${name}@latest`, args: [], secret_slots: [] }),
      (name, version) => `npm:${name}@${version}`,
    ),
    pypi: inspectNewest(
      installations,
      (name) => ({ kind: "pypi", spec: name, args: [], secret_slots: [] }),
      (name, version) => `pypi:${name}==${version}`,
    ),
    oci: createRegistryVersions(deps, installations),
    marketplace: createEntryVersions(deps),
  };

  async function findNewest(caller: Caller, pack: Package, operation: Operation): Promise<AvailableVersion> {
    if (pack.manifest.runtime.protocol === "mcp.http")
      return unknownVersion("A remote server has the version that its operator runs.");
    const lookup = lookups[pack.origin];
    if (lookup === undefined)
      return unknownVersion(
        WITHOUT_VERSIONS[pack.origin] ?? "Its source does not list the available versions.",
      );
    try {
      return await lookup(caller, pack, operation);
    } catch (error) {
      requireNotCancelled(operation);
      return unknownVersion(toBackplaneError(error).message);
    }
  }

  return async function outdated(caller, operation = unwatchedOperation()) {
    requireOperator(caller, "look for newer versions");
    const { org_id } = caller.scope;
    const installed = await readAllPages((page) => store.packages.list(org_id, page));
    const bindings = await readAllPages((page) => store.bindings.list(caller.scope, {}, page));
    const items: OutdatedPackage[] = [];
    for (const [package_id, versions] of groupByPackage(installed)) {
      requireNotCancelled(operation);
      const newest = versions[0]!;
      operation.report({ step: "resolve", message: `Looking for versions of ${package_id}` });
      const in_use = listVersionsInUse(bindings, package_id);
      // Another source may offer the same package id, so the source of the version in use is asked.
      const current = versions.find(({ version }) => in_use.includes(version)) ?? newest;
      const found = await findNewest(caller, current, operation);
      const used = in_use.length === 0 ? [newest.version] : in_use;
      const available = found.newest_available;
      const isOutdated = (version: string) =>
        compareVersions(newest.version, version) > 0 ||
        (available !== null && isNewer(available, version, current.origin));
      items.push({
        package_id,
        origin: current.origin,
        in_use,
        newest_installed: newest.version,
        outdated: current.origin !== "workspace" && used.some(isOutdated),
        ...found,
      });
    }
    return items;
  };
}

/**
 * Whether the newest version of a source is newer than an installed one. A Python version may have parts that a
 * semantic version does not have, such as `.post1`. They are build metadata, which has no order; if only they differ,
 * the version that the index offers counts as newer.
 */
function isNewer(available: string, version: string, origin: Package["origin"]): boolean {
  const order = compareVersions(available, version);
  if (order !== 0 || origin !== "pypi") return order > 0;
  return available !== version.replace(/[+.]built\..*$/, "");
}

/** Inspects the newest version of a source that has an index of versions. */
function inspectNewest(
  installations: Installations,
  sourceOf: (name: string) => InstallationSource,
  formatSource: (name: string, version: string) => string,
): FindNewest {
  return async (caller, { package_id, manifest: { name } }, operation) => {
    const { packages } = await installations.inspect(caller, sourceOf(name), operation);
    const offered = packages.find((one) => one.package_id === package_id);
    if (offered === undefined) return unknownVersion("Its source contains another package now.");
    const { version, provenance, source = formatSource(name, version) } = offered;
    return {
      newest_available: version,
      source,
      note: null,
      ...(provenance === undefined ? {} : { provenance }),
    };
  };
}

/** The versions of each package, newest first. */
function groupByPackage(installed: readonly Package[]): Map<string, Package[]> {
  const groups = Map.groupBy(installed, ({ package_id }) => package_id);
  for (const versions of groups.values()) versions.sort((a, b) => compareVersions(b.version, a.version));
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)));
}
