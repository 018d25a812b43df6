/** Prints what an installation would install, bind and change, and what the packages may do. Nothing was installed. */
import {
  type Binding,
  comparePackages,
  describeProvenance,
  type Installation,
  isSelfDescribing,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { ifAllowed } from "../bindings/report-tools.ts";
import type { CommandContext } from "../context/context.ts";
import { formatPermissions, listAbilities } from "../packages/permission-text.ts";
import { describeSignature } from "../packages/signature-text.ts";
import { findReplacedVersions, formatVersionChanges } from "../packages/version-changes.ts";
import { plainLine } from "../terminal/plain-text.ts";

type PlannedBindings = Installation["bindings"];

interface PlannedPackage {
  package: Package;
  created: boolean;
  bindings: PlannedBindings;
  /** The versions that are in use now. */
  versions: readonly Package[];
}

export async function reportDryRun(context: CommandContext, installation: Installation): Promise<void> {
  const { kind, plugin, upgrade, left_out, notes } = installation;
  const planned = await Promise.all(
    installation.packages.map(async (item) => ({
      ...item,
      bindings: installation.bindings.filter(({ binding }) => binding.package_id === item.package.package_id),
      versions: (await ifAllowed(findReplacedVersions(context, item.package, []))) ?? [],
    })),
  );
  const packages = planned.map(({ versions, ...item }) => ({
    ...item,
    abilities: listAbilities(item.package),
    changes: versions.flatMap((version) =>
      comparePackages(version, item.package).map((change) => ({ from: version.version, ...change })),
    ),
  }));
  context.out.data({ dry_run: true, kind, plugin, packages, upgrade, left_out, notes }, () =>
    [
      ...planned.flatMap(formatPackage),
      ...formatPermissions(planned.map((item) => item.package)),
      ...planned.flatMap((item) =>
        item.versions.flatMap((version) => formatVersionChanges(version, item.package)),
      ),
      ...(upgrade === undefined ? formatBindings(planned) : [formatUpgrade(upgrade)]),
    ].join("\n"),
  );
  context.out.note("Nothing was installed.");
}

function formatPackage({ package: planned, created }: PlannedPackage): string[] {
  const { package_id, version, digest, manifest, oci, signature, provenance } = planned;
  const skills = (manifest.skills ?? []).map(({ name }) => name);
  const source = oci?.reference ?? manifest.source;
  const exports = isSelfDescribing(manifest.runtime.protocol)
    ? "its tools, which are known only when it runs"
    : manifest.exports.map(({ id, kind }) => `${id} (${kind})`).join(", ");
  const facts = [
    ...(source === "" ? [] : [`source: ${source}`]),
    ...(signature === undefined ? [] : [`signature: ${describeSignature(signature)}`]),
    ...(provenance === undefined ? [] : [`provenance: ${describeProvenance(provenance)}`]),
    ...(exports === "" ? [] : [`exports: ${exports}`]),
    ...(skills.length === 0 ? [] : [`skills: ${skills.join(", ")}`]),
  ];
  const name = `${package_id}@${version}`;
  return [
    plainLine(created ? `Would install ${name} (${digest})` : `${name} is already installed (${digest})`),
    ...facts.map((fact) => `  ${plainLine(fact)}`),
  ];
}

function formatUpgrade({
  package_id,
  package_version,
  in_use,
  org_wide,
}: NonNullable<Installation["upgrade"]>): string {
  const flag = org_wide ? " --org-wide" : "";
  return plainLine(
    `${in_use.join(", ")} would stay in use. To upgrade after the installation: backplane plugin upgrade ${package_id}@${package_version}${flag}`,
  );
}

function formatBindings(planned: readonly PlannedPackage[]): string[] {
  const bindings = planned.flatMap((item) => item.bindings);
  if (bindings.length === 0) return ["Would bind nothing. To bind the exports, add --bind."];
  return bindings.flatMap(({ binding, change }) => {
    const { export_id, package_id, previous } = binding;
    const name = export_id === WHOLE_PACKAGE ? package_id : export_id;
    if (change === "unchanged") return [plainLine(`${name} is already bound; nothing would change`)];
    const held = change === "moved" ? (previous?.permissions_held ?? []) : [];
    const from = previous?.package_version ?? "";
    const action =
      change === "moved"
        ? `Would move ${name} from ${from} to ${binding.package_version}`
        : `Would bind ${name}`;
    return [
      plainLine(`${action} (${describeStatus(binding)})`),
      ...(held.length === 0
        ? []
        : [`  It also requests ${plainLine(held.join(", "))}, which would not be granted.`]),
    ];
  });
}

function describeStatus({ status, unbound_slots }: Binding): string {
  if (unbound_slots.length === 0) return status;
  const noun = unbound_slots.length === 1 ? "secret" : "secrets";
  return `${status}, needs the ${noun} ${unbound_slots.join(", ")}`;
}
