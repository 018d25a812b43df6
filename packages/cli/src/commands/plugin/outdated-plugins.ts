/** `plugin outdated`: the versions in use, the newest ones, and the commands that upgrade. */
import { comparePackages, compareProvenance, type OutdatedPackage } from "@backplane/contract";
import type { CommandContext } from "../../context/context.ts";
import { findInstalledPackage } from "../../packages/find-package.ts";
import { table } from "../../terminal/output.ts";
import { plainLine } from "../../terminal/plain-text.ts";

export async function listOutdated(context: CommandContext): Promise<undefined> {
  const { out } = context;
  const items = await context.client().packages.outdated();
  out.data({ items }, () => {
    const rows = items.map((item) => [
      item.package_id,
      item.origin,
      item.in_use.join(", ") || "-",
      item.newest_installed,
      item.newest_available ?? "n/a",
      describeStatus(item),
    ]);
    return table(out, ["PACKAGE", "SOURCE", "IN USE", "INSTALLED", "AVAILABLE", "STATUS"], rows);
  });
  for (const item of items.filter(({ outdated }) => outdated))
    for (const line of await describeUpgrade(context, item)) out.note(plainLine(line));
  for (const { package_id, note } of items) if (note !== null) out.note(plainLine(`${package_id}: ${note}`));
  return undefined;
}

/** A package whose source cannot be queried may be outdated. */
function describeStatus({ outdated, newest_available }: OutdatedPackage): string {
  if (outdated) return "outdated";
  return newest_available === null ? "unknown" : "current";
}

/**
 * Exports, permissions and configuration can be compared only with an installed version. For any other version only the
 * provenance is compared, and the suggested command installs the version first.
 */
async function describeUpgrade(
  context: CommandContext,
  { package_id, in_use, newest_installed, newest_available, source, provenance }: OutdatedPackage,
): Promise<string[]> {
  const [current] = in_use;
  // A version that was built from source archives has a suffix that identifies them.
  const installed = newest_installed.replace(/[+.]built\..*$/, "");
  if (source !== null && newest_available !== newest_installed && newest_available !== installed) {
    const in_use_package = await findInstalledPackage(
      context,
      `${package_id}@${current ?? newest_installed}`,
    );
    const changes = provenance === undefined ? [] : compareProvenance(in_use_package, { provenance });
    return [
      `${package_id} ${newest_available} is available. To see what changes: backplane plugin upgrade ${package_id} --from ${source} --dry-run`,
      ...changes.map(({ text }) => `  ${text}`),
    ];
  }
  if (current === undefined) return [];
  const [before, after] = [
    await findInstalledPackage(context, `${package_id}@${current}`),
    await findInstalledPackage(context, `${package_id}@${newest_installed}`),
  ];
  const changes = comparePackages(before, after).map(({ text }) => `  ${text}`);
  return [
    `${package_id} ${current} → ${newest_installed}: backplane plugin upgrade ${package_id}@${newest_installed}`,
    ...(changes.length === 0 ? ["  no change to exports, permissions or configuration"] : changes),
  ];
}
