/** Reports for each package whether a version newer than the one in use is installed or available at its source. */
import {
  type Binding,
  compareVersions,
  type OutdatedPackage,
  type Package,
  toBackplaneError,
} from "@backplane/contract";
import {
  type Caller,
  type InstallationSource,
  type Kernel,
  type KernelDeps,
  type Operation,
  type PageOf,
  requireNotCancelled,
  requireOperator,
  unwatchedOperation,
} from "@backplane/ports";

/** The place where the newest version of a package is looked up. */
interface VersionSource {
  source: InstallationSource;
  /** The same source in the form that `plugin install` accepts, for one version. */
  formatSource(version: string): string;
}

/** Keyed by the origin of a package. The sources of other origins cannot be queried for versions. */
const SOURCES: Partial<Record<Package["origin"], (pack: Package) => VersionSource | null>> = {
  npm: ({ manifest: { name } }) => ({
    source: { kind: "npm", spec: `${name}@latest`, args: [], secret_slots: [] },
    formatSource: (version) => `npm:${name}@${version}`,
  }),
  pypi: ({ manifest: { name } }) => ({
    source: { kind: "pypi", spec: name, args: [], secret_slots: [] },
    formatSource: (version) => `pypi:${name}==${version}`,
  }),
  // The tag is read again, because it may have moved to another version.
  oci: ({ oci }) => {
    const reference = oci?.reference ?? null;
    return reference === null || reference.includes("@")
      ? null
      : { source: { kind: "oci", reference }, formatSource: () => reference };
  },
};

const UPGRADE_HINT =
  "To upgrade, specify the source of the next version: backplane plugin upgrade --from SOURCE.";

/** Why a source cannot be queried for versions. */
const WITHOUT_VERSIONS: Partial<Record<Package["origin"], string>> = {
  folder: `A folder does not list the available versions. ${UPGRADE_HINT}`,
  upload: `An archive does not list the available versions. ${UPGRADE_HINT}`,
  oci: `A digest or a layout does not list the available versions. ${UPGRADE_HINT}`,
  image:
    "A tag does not list the available versions. To get the image that it refers to now, install it again.",
  marketplace: "Its marketplace offers one version of each package: backplane plugin search.",
  workspace:
    "It is linked to a folder, which does not list the available versions. Changes are loaded on save.",
};

export function createOutdated(
  { store }: Pick<KernelDeps, "store">,
  installations: Pick<Kernel["installations"], "inspect">,
): Kernel["packages"]["outdated"] {
  async function findNewest(
    caller: Caller,
    pack: Package,
    operation: Operation,
  ): Promise<Pick<OutdatedPackage, "newest_available" | "source" | "note" | "provenance">> {
    const unknown = (note: string) => ({ newest_available: null, source: null, note });
    if (pack.manifest.runtime.protocol === "mcp.http")
      return unknown("A remote server has the version that its operator runs.");
    const package_source = SOURCES[pack.origin]?.(pack) ?? null;
    if (package_source === null)
      return unknown(WITHOUT_VERSIONS[pack.origin] ?? "Its source does not list the available versions.");
    try {
      const { packages } = await installations.inspect(caller, package_source.source, operation);
      const offered = packages.find(({ package_id }) => package_id === pack.package_id);
      if (offered === undefined) return unknown("Its source contains another package now.");
      const { version, provenance, source = package_source.formatSource(version) } = offered;
      return {
        newest_available: version,
        source,
        note: null,
        ...(provenance === undefined ? {} : { provenance }),
      };
    } catch (error) {
      requireNotCancelled(operation);
      return unknown(toBackplaneError(error).message);
    }
  }

  return async function outdated(caller, operation = unwatchedOperation()) {
    requireOperator(caller, "look for newer versions");
    const installed = await readAll((after) =>
      store.packages.list(caller.scope.org_id, { limit: 100, ...after }),
    );
    const bindings = await readAll((after) =>
      store.bindings.list(caller.scope, {}, { limit: 100, ...after }),
    );
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

function listVersionsInUse(bindings: readonly Binding[], package_id: string): string[] {
  // A share that remains after a rolled back rollout gets no calls.
  const package_bindings = bindings.filter(
    (binding) =>
      binding.package_id === package_id &&
      (binding.share_of === undefined || binding.rollout.traffic_percent > 0),
  );
  return [...new Set(package_bindings.map(({ package_version }) => package_version))].sort(compareVersions);
}

/** The versions of each package, newest first. */
function groupByPackage(installed: readonly Package[]): Map<string, Package[]> {
  const groups = Map.groupBy(installed, ({ package_id }) => package_id);
  for (const versions of groups.values()) versions.sort((a, b) => compareVersions(b.version, a.version));
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function readAll<T>(read: (after: { after?: string }) => Promise<PageOf<T>>): Promise<T[]> {
  const results: T[] = [];
  for (let after = {}; ; ) {
    const page = await read(after);
    results.push(...page.items);
    if (page.next === null) return results;
    after = { after: page.next };
  }
}
