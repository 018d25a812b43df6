/** `plugin upgrade` and `plugin rollback`: all bindings of a package at once; what changes is shown first. */
import { BackplaneError, type Binding, type Package, type ReplayReport } from "@backplane/contract";
import { findInstalledPackage, parsePackageName } from "../../bindings/find-package.ts";
import { reportVersionChange } from "../../bindings/report-changes.ts";
import type { ExitCode } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { listAll } from "../../context/page.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { canAsk, confirm } from "../../terminal/prompts.ts";
import { comparePackages } from "./compare-packages.ts";
import { describeReplay, exitCodeOfReplay, requestReplay } from "./replay-plugin.ts";

interface VersionOptions {
  orgWide?: boolean;
  dryRun?: boolean;
}

interface UpgradeOptions extends VersionOptions {
  replay?: boolean;
  stopOnChange?: boolean;
}

export async function upgradePlugin(
  context: CommandContext,
  options: UpgradeOptions,
  name: string,
): Promise<ExitCode | undefined> {
  const target = await findInstalledPackage(context, name);
  const { package_id, version: package_version } = target;
  const bound = await listBindings(context, package_id, options);
  const moving = bound.filter((binding) => binding.package_version !== package_version);
  await showChanges(context, target, moving);
  const replayed =
    options.replay === true && moving.length > 0 ? await replay(context, target, options) : null;
  if (options.dryRun === true || replayed !== null) {
    const report = replayed === null ? {} : { replay: replayed };
    context.out.data({ bindings: moving, ...report }, () => "Nothing was changed.");
    return replayed === null ? undefined : exitCodeOfReplay(replayed);
  }
  if (moving.length > 0) await confirmIfAsked(context, `Upgrade ${package_id} to ${package_version}?`);
  const wide = options.orgWide === true ? { org_wide: true } : {};
  const bindings = await context.client().bindings.upgrade({ package_id, package_version, ...wide });
  showVersions(context, bindings);
  if (moving.length > 0) context.out.note(`To undo all of it: backplane plugin rollback ${package_id}`);
  return undefined;
}

/** Shows the replay. Returns its report if the upgrade has to stop because of it, else null. */
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

/** Each binding returns to the version before its last upgrade, with the settings that it had. */
export async function rollbackPlugin(
  context: CommandContext,
  options: VersionOptions,
  name: string,
): Promise<undefined> {
  const { package_id } = parsePackageName(name);
  const bound = await listBindings(context, package_id, options);
  const moved = bound.filter(({ previous }) => previous !== undefined);
  if (moved.length === 0)
    throw new BackplaneError("binding.not_found", `No binding of ${package_id} was upgraded here.`, {
      fix: "backplane binding list",
    });
  for (const version of new Set(moved.map(({ previous }) => previous!.package_version))) {
    const target = await findInstalledPackage(context, `${package_id}@${version}`);
    const back = moved.filter(({ previous }) => previous!.package_version === version);
    await showChanges(context, target, back);
  }
  if (options.dryRun === true) {
    context.out.data({ bindings: moved }, () => "Nothing was changed.");
    return undefined;
  }
  await confirmIfAsked(context, `Roll back ${moved.length} bindings of ${package_id}?`);
  const bindings: Binding[] = [];
  for (const { binding_id, generation } of moved)
    bindings.push(await context.client().bindings.rollback(binding_id, { generation }));
  showVersions(context, bindings);
  return undefined;
}

/** Bindings that a project sees but does not own are not changed. */
async function listBindings(
  context: CommandContext,
  package_id: string,
  { orgWide }: VersionOptions,
): Promise<Binding[]> {
  const { bindings } = context.client();
  const found = await listAll((page) => bindings.list({ ...page, package_id }));
  return found.filter(({ scope }) => orgWide !== true || scope.project_id === null);
}

/** Compares the target with each version that a binding leaves. */
async function showChanges(
  context: CommandContext,
  target: Package,
  moving: readonly Binding[],
): Promise<void> {
  const { out } = context;
  for (const version of new Set(moving.map(({ package_version }) => package_version))) {
    const current = await findInstalledPackage(context, `${target.package_id}@${version}`);
    out.note(plainLine(`${target.package_id} ${version} → ${target.version}`));
    const lines = comparePackages(current, target);
    for (const line of lines.length === 0 ? ["no change of exports, permissions or configuration"] : lines)
      out.note(`  ${plainLine(line)}`);
  }
}

/** Without a terminal the command runs as it is, so that scripts need no flag. */
async function confirmIfAsked({ io, flags }: CommandContext, question: string): Promise<void> {
  if (canAsk(io, flags)) await confirm(io, flags, question);
}

function showVersions(context: CommandContext, bindings: readonly Binding[]): void {
  context.out.data({ bindings }, () =>
    bindings
      .map(
        ({ binding_id, export_id, package_version, status }) =>
          `${binding_id} ${export_id} ${package_version} (${status})`,
      )
      .join("\n"),
  );
  for (const binding of bindings) reportVersionChange(context, binding);
}
