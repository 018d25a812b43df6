/** The versions of packages that bindings use. */
import { type Binding, compareVersions } from "@backplane/contract";

export function listVersionsInUse(bindings: readonly Binding[], package_id: string): string[] {
  // A share that remains after a rolled-back rollout gets no calls.
  const package_bindings = bindings.filter(
    (binding) =>
      binding.package_id === package_id &&
      (binding.share_of === undefined || binding.rollout.traffic_percent > 0),
  );
  return [...new Set(package_bindings.map(({ package_version }) => package_version))].sort(compareVersions);
}
