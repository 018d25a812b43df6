/**
 * Selects which binding of an export serves a call (bind.rollout). Bindings of the project come before those of
 * the org, the shares of a rollout before other bindings, and newer versions before older ones. `traffic_percent` fills
 * cumulative buckets in that order; a call beyond the last bucket gets no binding. The same key always falls into the
 * same bucket.
 */

import { BackplaneError, compareVersions } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";

export function pickBinding(candidates: readonly BoundPackage[], key: string): BoundPackage | null {
  const usable = candidates.filter(takesTraffic);
  const first = usable[0];
  if (first === undefined) return null;
  if (usable.length === 1 && first.binding.rollout.traffic_percent >= 100) return first;
  const ordered = sortByPrecedence(usable);
  requireOnePackage(ordered);
  const bucket = assignBucket(key, first.binding.export_id);
  let filled = 0;
  for (const candidate of ordered) {
    filled += candidate.binding.rollout.traffic_percent;
    if (bucket < filled) return candidate;
  }
  return null;
}

export function takesTraffic({ binding }: BoundPackage): boolean {
  return binding.status === "active" && binding.rollout.traffic_percent > 0;
}

function sortByPrecedence(usable: readonly BoundPackage[]): BoundPackage[] {
  return [...usable].sort((a, b) => {
    const level = Number(a.binding.scope.project_id === null) - Number(b.binding.scope.project_id === null);
    if (level !== 0) return level;
    // A share takes its calls from the binding that has the rest, even if its version is older or equal.
    const share = Number(b.binding.share_of !== undefined) - Number(a.binding.share_of !== undefined);
    if (share !== 0) return share;
    const version = compareVersions(b.binding.package_version, a.binding.package_version);
    // A binding of this one export takes precedence over a binding of its whole package.
    return version !== 0 ? version : Number(a.whole === true) - Number(b.whole === true);
  });
}

/** Models see the definitions of the version that is in use, not those of a candidate that has a share of the calls. */
export function sortForListing(usable: readonly BoundPackage[]): BoundPackage[] {
  const ordered = sortByPrecedence(usable);
  const isShare = ({ binding }: BoundPackage) => binding.share_of !== undefined;
  return [...ordered.filter((bound) => !isShare(bound)), ...ordered.filter(isShare)];
}

/** Sorts bindings of the project before those of the org, and older bindings before newer ones. */
export function sortProjectFirst(bound: readonly BoundPackage[]): BoundPackage[] {
  return [...bound].sort((a, b) => {
    const level = Number(a.binding.scope.project_id === null) - Number(b.binding.scope.project_id === null);
    return level !== 0 ? level : a.binding.created_at < b.binding.created_at ? -1 : 1;
  });
}

/** Versions of different packages cannot be compared, so the caller has to specify the package. */
function requireOnePackage(ordered: readonly BoundPackage[]): void {
  const top = ordered[0]!.binding.scope.project_id;
  const packages = new Set<string>();
  for (const { binding } of ordered) if (binding.scope.project_id === top) packages.add(binding.package_id);
  if (packages.size < 2) return;
  throw new BackplaneError(
    "request.invalid",
    `Several packages offer ${ordered[0]!.binding.export_id}. Send package_id to choose one.`,
    { details: { packages: [...packages].sort() } },
  );
}

/** Returns 0 ≤ bucket < 100 in steps of 0.01, spread evenly over the keys. */
function assignBucket(key: string, export_id: string): number {
  return (hash32(`${export_id}\n${key}`) % 10_000) / 100;
}

/** FNV-1a with a final mix, so that keys that differ only in their last character spread evenly as well. */
function hash32(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
