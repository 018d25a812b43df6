/** Finds the packages of which a newer version than the one in use is installed or available at their source. */
import { type Binding, type OutdatedPackage, type Package, toBackplaneError } from "@backplane/contract";
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
import { compareVersions } from "../bindings/compare-versions.ts";

/** The place where the newest version of a package is looked up. */
interface VersionSource {
  source: InstallationSource;
  /** The same source as `plugin install` takes it, for one version. */
  textOf(version: string): string;
}

/** By the origin of a package. Sources of packages with another origin were not recorded when they were installed. */
const SOURCES: Partial<Record<Package["origin"], (pack: Package) => VersionSource | null>> = {
  npm: ({ manifest: { name } }) => ({
    source: { kind: "npm", spec: `${name}@latest`, args: [], secret_slots: [] },
    textOf: (version) => `npm:${name}@${version}`,
  }),
  // The tag is read again, because it may have moved to another version.
  oci: ({ oci }) => {
    const reference = oci?.reference ?? null;
    return reference === null || reference.includes("@")
      ? null
      : { source: { kind: "oci", reference }, textOf: () => reference };
  },
};

const NOT_RECORDED =
  "Its source was not recorded. Use --from with the folder or archive of the next version.";

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
    const found = SOURCES[pack.origin]?.(pack) ?? null;
    if (found === null) return unknown(NOT_RECORDED);
    try {
      const { packages } = await installations.inspect(caller, found.source, operation);
      const same = packages.find(({ package_id }) => package_id === pack.package_id);
      if (same === undefined) return unknown("Its source contains another package now.");
      const { version, provenance } = same;
      return {
        newest_available: version,
        source: found.textOf(version),
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
      // The content of a folder that is trusted or linked is followed as it changes.
      if (newest.origin === "workspace") continue;
      operation.report({ step: "resolve", message: `Looking for versions of ${package_id}` });
      const in_use = versionsInUse(bindings, package_id);
      const found = await findNewest(caller, newest, operation);
      const known = [newest.version, found.newest_available ?? newest.version];
      const used = in_use.length === 0 ? [newest.version] : in_use;
      items.push({
        package_id,
        origin: newest.origin,
        in_use,
        newest_installed: newest.version,
        outdated: used.some((version) => known.some((other) => compareVersions(other, version) > 0)),
        ...found,
      });
    }
    return items;
  };
}

function versionsInUse(bindings: readonly Binding[], package_id: string): string[] {
  // A share that remains after a rolled back rollout serves no calls.
  const own = bindings.filter(
    (binding) =>
      binding.package_id === package_id &&
      (binding.share_of === undefined || binding.rollout.traffic_percent > 0),
  );
  return [...new Set(own.map(({ package_version }) => package_version))].sort(compareVersions);
}

/** The versions of each package, newest first. */
function groupByPackage(installed: readonly Package[]): Map<string, Package[]> {
  const groups = Map.groupBy(installed, ({ package_id }) => package_id);
  for (const versions of groups.values()) versions.sort((a, b) => compareVersions(b.version, a.version));
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function readAll<T>(read: (after: { after?: string }) => Promise<PageOf<T>>): Promise<T[]> {
  const found: T[] = [];
  for (let after = {}; ; ) {
    const page = await read(after);
    found.push(...page.items);
    if (page.next === null) return found;
    after = { after: page.next };
  }
}
