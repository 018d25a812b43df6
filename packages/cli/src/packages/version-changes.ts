/** Compares a version of a package with the versions that its bindings use. */
import { type Binding, comparePackages, type Package } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import { plainLine } from "../terminal/plain-text.ts";

/** A heading and one line for each change. */
export function formatVersionChanges(current: Package, target: Package): string[] {
  const changes = comparePackages(current, target).map(({ text }) => text);
  const lines = changes.length === 0 ? ["no change to exports, permissions or configuration"] : changes;
  return [
    plainLine(`${target.package_id} ${current.version} → ${target.version}`),
    ...lines.map((line) => `  ${plainLine(line)}`),
  ];
}

/** The other versions of the package that are bound, or were bound until `bindings` moved to this one. */
export async function findReplacedVersions(
  context: CommandContext,
  { package_id, version }: Package,
  bindings: readonly Binding[],
): Promise<Package[]> {
  const bound = await listAll((page) => context.client().bindings.list({ ...page, package_id }));
  const versions = new Set([
    ...bound.filter(servesCalls).map(({ package_version }) => package_version),
    ...bindings.flatMap(({ previous }) => previous?.package_version ?? []),
  ]);
  versions.delete(version);
  if (versions.size === 0) return [];
  const installed = await listAll((page) => context.client().packages.list(page));
  return installed.filter((item) => item.package_id === package_id && versions.has(item.version));
}

/** A rollout that was rolled back leaves its share without calls until the next upgrade. */
function servesCalls({ share_of, rollout }: Binding): boolean {
  return share_of === undefined || rollout.traffic_percent > 0;
}
