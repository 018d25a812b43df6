/** The installed versions of a package as one row, with the version that its bindings use. */
import type { Binding, Package } from "@backplane/contract";

export interface PackageGroup {
  package_id: string;
  /** The version in use, or the newest installation if none is bound. */
  shown: Package;
  versions: readonly Package[];
  bindings: readonly Binding[];
}

export function groupPackages(packages: readonly Package[], bindings: readonly Binding[]): PackageGroup[] {
  const groups = Map.groupBy(packages, ({ package_id }) => package_id);
  return [...groups]
    .map(([package_id, installed]) => {
      const versions = installed.toSorted((a, b) => b.installed_at.localeCompare(a.installed_at));
      const bound = bindings.filter((binding) => binding.package_id === package_id);
      const used = versionInUse(bound);
      const shown = versions.find(({ version }) => version === used) ?? versions[0]!;
      return { package_id, shown, versions, bindings: bound };
    })
    .sort((a, b) => a.shown.manifest.name.localeCompare(b.shown.manifest.name));
}

/** Ignores shares, which serve a percentage of the calls with the next version. */
export function versionInUse(bindings: readonly Binding[]): string | null {
  return bindings.find(({ share_of }) => share_of === undefined)?.package_version ?? null;
}

/** Whether every word of the text appears in the name, id, description or exports. */
export function matchesText({ shown }: PackageGroup, text: string): boolean {
  const { manifest, package_id } = shown;
  const all = [manifest.name, package_id, manifest.description, ...manifest.exports.map(({ id }) => id)];
  const searched = all.join(" ").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => searched.includes(word));
}
