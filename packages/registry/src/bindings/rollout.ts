/**
 * Which of several bindings of one export takes a call (bind.rollout). The project's come before the org's, in
 * each the newest version first; traffic_percent fills cumulative buckets along that order, and what falls
 * behind the last bucket is refused. One key always lands in the same bucket.
 */

import { BackplaneError } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { compareVersions } from "./version.ts";

export function pickBinding(candidates: readonly BoundPackage[], key: string): BoundPackage | null {
  const usable = candidates.filter(takesTraffic);
  const first = usable[0];
  if (first === undefined) return null;
  if (usable.length === 1 && first.binding.rollout.traffic_percent >= 100) return first;
  const order = sortByPrecedence(usable);
  requireOnePackage(order);
  const bucket = assignBucket(key, first.binding.export_id);
  let filled = 0;
  for (const candidate of order) {
    filled += candidate.binding.rollout.traffic_percent;
    if (bucket < filled) return candidate;
  }
  return null;
}

export function takesTraffic({ binding }: BoundPackage): boolean {
  return binding.status === "active" && binding.rollout.traffic_percent > 0;
}

export function sortByPrecedence(usable: readonly BoundPackage[]): BoundPackage[] {
  return [...usable].sort((a, b) => {
    const level = Number(a.binding.scope.project_id === null) - Number(b.binding.scope.project_id === null);
    if (level !== 0) return level;
    const version = compareVersions(b.binding.package_version, a.binding.package_version);
    // What somebody bound by itself stands before its package as a whole.
    return version !== 0 ? version : Number(a.whole === true) - Number(b.whole === true);
  });
}

/** Versions of two packages do not compare, so inside one scope the caller has to say which it means. */
function requireOnePackage(order: readonly BoundPackage[]): void {
  const top = order[0]!.binding.scope.project_id;
  const packages = new Set<string>();
  for (const { binding } of order) if (binding.scope.project_id === top) packages.add(binding.package_id);
  if (packages.size < 2) return;
  throw new BackplaneError(
    "request.invalid",
    `several packages offer ${order[0]!.binding.export_id}; send package_id to choose one`,
    { details: { packages: [...packages].sort() } },
  );
}

/** 0 ≤ bucket < 100 in steps of 0.01, spread evenly over keys. */
function assignBucket(key: string, export_id: string): number {
  return (hash32(`${export_id}\n${key}`) % 10_000) / 100;
}

/** FNV-1a with a final mix, so that keys which differ in the last character alone spread as well. */
function hash32(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
