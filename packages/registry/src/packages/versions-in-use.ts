/** The versions of packages that bindings use. */
import { type Binding, compareVersions } from "@backplane/contract";
import type { PageOf } from "@backplane/ports";

export function listVersionsInUse(bindings: readonly Binding[], package_id: string): string[] {
  // A share that remains after a rolled-back rollout gets no calls.
  const package_bindings = bindings.filter(
    (binding) =>
      binding.package_id === package_id &&
      (binding.share_of === undefined || binding.rollout.traffic_percent > 0),
  );
  return [...new Set(package_bindings.map(({ package_version }) => package_version))].sort(compareVersions);
}

/** Reads all pages of a list. */
export async function readAllPages<T>(
  read: (page: { limit: number; after?: string }) => Promise<PageOf<T>>,
): Promise<T[]> {
  const results: T[] = [];
  for (let after = {}; ; ) {
    const page = await read({ limit: 100, ...after });
    results.push(...page.items);
    if (page.next === null) return results;
    after = { after: page.next };
  }
}
