/** `plugin upgrade` and `plugin rollback`: show what changes, then change all bindings of a package to a version. */
import {
  BackplaneError,
  type Binding,
  formatHeldFlags,
  type Package,
  type ReplayReport,
  selectRollback,
} from "@backplane/contract";
import { listScopeBindings } from "../../bindings/list-scope-bindings.ts";
import { reportVersionChange } from "../../bindings/report-changes.ts";
import { EXIT, type ExitCode } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { findOrInstallVersion } from "../../install/find-or-install-version.ts";
import type { InstallOptions } from "../../install/installation-settings.ts";
import { findInstalledPackage, parsePackageName } from "../../packages/find-package.ts";
import { formatVersionChanges } from "../../packages/version-changes.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { canAsk, confirm } from "../../terminal/prompts.ts";
import { describeReplay, exitCodeOfReplay, requestReplay } from "./replay-plugin.ts";

interface VersionOptions {
  orgWide?: boolean;
  dryRun?: boolean;
}

interface UpgradeOptions extends VersionOptions, Pick<InstallOptions, "allowScripts" | "allowBuild"> {
  from?: string;
  percent?: number;
  trial?: number;
  grantPermissions?: boolean;
  withholdPermissions?: boolean;
  replay?: boolean;
  stopOnChange?: boolean;
}

export async function upgradePlugin(
  context: CommandContext,
  options: UpgradeOptions,
  name: string,
): Promise<ExitCode | undefined> {
  const { from, percent = 100, trial } = options;
  const target =
    from === undefined
      ? await findInstalledPackage(context, name)
      : await findOrInstallVersion(context, parsePackageName(name).package_id, from, options);
  const { package_id, version: package_version } = target;
  const bound = await listScopeBindings(context, package_id, options);
  const affected = bound.filter(
    (binding) => binding.share_of === undefined && binding.package_version !== package_version,
  );
  await showChanges(context, target, affected);
  const stopping_replay =
    options.replay === true && affected.length > 0 ? await replay(context, target, options) : null;
  if (options.dryRun === true || stopping_replay !== null) {
    const report = stopping_replay === null ? {} : { replay: stopping_replay };
    context.out.data({ bindings: affected, ...report }, () =>
      from === undefined
        ? "Nothing was changed."
        : `${package_id} ${package_version} is installed; no binding was changed.`,
    );
    return stopping_replay === null ? undefined : exitCodeOfReplay(stopping_replay);
  }
  const share = percent < 100 ? ` for ${percent}% of the calls` : "";
  if (affected.length > 0)
    await confirm(context.io, context.flags, `Upgrade ${package_id} to ${package_version}${share}?`);
  const bindings = await context.client().bindings.upgrade({
    package_id,
    package_version,
    percent,
    new_permissions: chooseNewPermissions(options),
    ...(options.orgWide === true ? { org_wide: true } : {}),
    ...(trial === undefined ? {} : { trial: { seconds: trial } }),
  });
  showVersions(context, bindings);
  const held_binding = bindings.find(({ held_upgrade }) => held_upgrade?.package_version === package_version);
  if (held_binding !== undefined) {
    reportHeld(context, held_binding);
    return EXIT.denied;
  }
  if (affected.length === 0) {
    context.out.note(
      `Nothing to upgrade: ${package_id} ${package_version} is in use. Newer versions: backplane plugin outdated`,
    );
    return undefined;
  }
  context.out.note(
    percent < 100
      ? `To send more calls to this version: backplane plugin upgrade ${package_id}@${package_version} --percent N; omit --percent for all calls.`
      : "If this version crashes or fails too often during its trial, the gateway returns to the previous version.",
  );
  context.out.note(`To undo the upgrade: backplane plugin rollback ${package_id}`);
  return undefined;
}

/**
 * A version that requests more than the one in use waits for an admin, unless a flag grants or withholds the
 * permissions.
 */
function chooseNewPermissions({
  grantPermissions,
  withholdPermissions,
}: UpgradeOptions): "grant" | "withhold" | "hold" {
  if (grantPermissions === true && withholdPermissions === true)
    throw new BackplaneError("cli.usage", "Use --grant-permissions or --withhold-permissions, not both.");
  if (grantPermissions === true) return "grant";
  return withholdPermissions === true ? "withhold" : "hold";
}

function reportHeld({ out }: CommandContext, { package_id, package_version, held_upgrade }: Binding): void {
  const { package_version: next, permissions } = held_upgrade!;
  const flags = formatHeldFlags(held_upgrade!);
  out.note(
    `${package_id} ${next} requests more permissions (${permissions.join(", ")}) and waits for an admin. ${package_version} stays in use.`,
  );
  out.note(
    `An admin approves the upgrade with: backplane plugin upgrade ${package_id}@${next}${flags} --grant-permissions`,
  );
  out.note(
    `Without the permissions: --withhold-permissions. To withdraw the upgrade: backplane plugin rollback ${package_id}`,
  );
}

/** Shows the replay. Returns its report if it must stop the upgrade, otherwise null. */
async function replay(
  context: CommandContext,
  target: Package,
  options: UpgradeOptions,
): Promise<ReplayReport | null> {
  const report = await requestReplay(context, target, options);
  for (const line of describeReplay(report)) context.out.note(plainLine(line));
  const stops = report.verdict === "held" || (report.verdict === "changed" && options.stopOnChange === true);
  return stops ? report : null;
}

/**
 * Ends a rollout or withdraws a held upgrade, if there is one. Otherwise each binding returns to the version before its
 * last upgrade, with the settings that it had.
 */
export async function rollbackPlugin(
  context: CommandContext,
  options: VersionOptions,
  name: string,
): Promise<undefined> {
  const { package_id } = parsePackageName(name);
  const { pending, upgraded } = selectRollback(await listScopeBindings(context, package_id, options));
  for (const binding of pending) context.out.note(plainLine(describePending(binding)));
  for (const version of new Set(upgraded.map(({ previous }) => previous!.package_version))) {
    const target = await findInstalledPackage(context, `${package_id}@${version}`);
    const returning = upgraded.filter(({ previous }) => previous!.package_version === version);
    await showChanges(context, target, returning);
  }
  const affected = [...pending, ...upgraded];
  if (options.dryRun === true) {
    context.out.data({ bindings: affected }, () =>
      affected.length === 0 ? "There is nothing to roll back." : "Nothing was changed.",
    );
    return undefined;
  }
  // If there is nothing to roll back, the gateway explains why.
  if (affected.length > 0)
    await confirmAtTerminal(context, `Roll back ${affected.length} bindings of ${package_id}?`);
  const bindings = await context.client().bindings.rollbackPackage({
    package_id,
    ...(options.orgWide === true ? { org_wide: true } : {}),
  });
  showVersions(context, bindings, pending.length === 0);
  return undefined;
}

function describePending({ binding_id, package_version, rollout, held_upgrade }: Binding): string {
  return held_upgrade === undefined
    ? `${binding_id} gets no more calls; it had ${rollout.traffic_percent}% with ${package_version}.`
    : `${binding_id}: the upgrade to ${held_upgrade.package_version} is withdrawn.`;
}

/** Compares the target with each version that a binding would leave. */
async function showChanges(
  context: CommandContext,
  target: Package,
  affected: readonly Binding[],
): Promise<void> {
  const { out } = context;
  for (const version of new Set(affected.map(({ package_version }) => package_version))) {
    const current = await findInstalledPackage(context, `${target.package_id}@${version}`);
    for (const line of formatVersionChanges(current, target)) out.note(line);
  }
}

/** Without a terminal a rollback runs without confirmation, because it must not wait for a flag in an emergency. */
async function confirmAtTerminal({ io, flags }: CommandContext, question: string): Promise<void> {
  if (canAsk(io, flags)) await confirm(io, flags, question);
}

function showVersions(context: CommandContext, bindings: readonly Binding[], version_changed = true): void {
  context.out.data({ bindings }, () =>
    bindings
      .map(({ binding_id, export_id, package_version, status, share_of, rollout }) => {
        const share = share_of === undefined ? "" : `, ${rollout.traffic_percent}% of the calls`;
        return `${binding_id} ${export_id} ${package_version} (${status}${share})`;
      })
      .join("\n"),
  );
  if (!version_changed) return;
  for (const binding of bindings)
    if (binding.share_of === undefined && binding.held_upgrade === undefined)
      reportVersionChange(context, binding);
}
