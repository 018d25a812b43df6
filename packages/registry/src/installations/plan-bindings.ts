/**
 * Plans the bindings of an installation. Unless the request starts a rollout, an export that is bound in another
 * version in the same scope moves to the new version and keeps its settings. An export that is bound in this version is
 * left unchanged; every other export gets a new binding.
 */

import {
  BackplaneError,
  type Binding,
  type BindingPolicy,
  definedFields,
  type Installation,
  type InstallationSettings,
  isObject,
  isSelfDescribing,
  type JsonObject,
  type Package,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { Caller, OpenedSource } from "@backplane/ports";
import { requireDistinctNames } from "../bindings/name-authority.ts";
import { type BindingPlanner, isEndedShare, type PlannedChange } from "../bindings/plan-change.ts";
import type { ImportedPart } from "./import-parts.ts";

type Settings = Pick<InstallationSettings, "config" | "secrets" | "policy" | "rollout">;
type InstalledBinding = Installation["bindings"][number];

export interface PlannedBinding {
  result: InstalledBinding;
  /** Null if nothing changes. */
  change: PlannedChange | null;
}

/**
 * Whether the parts are bound. By default, everything is bound except packages that list their exports in a manifest.
 */
export function bindsParts(
  { kind }: Pick<OpenedSource, "kind">,
  parts: readonly ImportedPart[],
  { bind }: InstallationSettings,
): boolean {
  if (bind !== undefined) return bind;
  return kind !== "package" || parts.every(({ row }) => isSelfDescribing(row.manifest.runtime.protocol));
}

/** Refuses settings without effect. Secrets are accepted: they define slots of a server, which may be bound later. */
export function requireNoSettings({ config, policy, rollout, org_wide }: InstallationSettings): void {
  const setting = Object.keys(definedFields({ config, policy, rollout, org_wide }))[0];
  if (setting === undefined) return;
  const message = `${setting} applies to a binding, and nothing is bound.`;
  throw new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: `body.${setting}`, message }] },
    fix: "Send bind: true, or leave the settings of the binding out.",
  });
}

/** The bindings of the packages, in the scope of the installation, that use another version. */
export async function listOtherVersions(
  planner: BindingPlanner,
  caller: Caller,
  parts: readonly ImportedPart[],
  { org_wide }: InstallationSettings,
): Promise<Binding[]> {
  const scope = planner.resolveScope(caller, org_wide);
  const bound = await Promise.all(
    parts.map(async ({ row: { package_id, version } }) =>
      (await planner.listInScope(scope, package_id)).filter(
        (binding) => binding.package_version !== version && !isEndedShare(binding),
      ),
    ),
  );
  return bound.flat();
}

/** Refuses settings that would have no effect, because the bindings are left to an upgrade. */
export function requireNoUpgradeSettings(
  { package_id, package_version }: Binding,
  { version }: Package,
  { config, secrets, policy, rollout }: InstallationSettings,
): void {
  const setting = Object.keys(definedFields({ config, secrets, policy, rollout }))[0];
  if (setting === undefined) return;
  const message = `${setting} has no effect: ${package_id} is bound in version ${package_version}, and its bindings keep their version and settings until they are upgraded.`;
  throw new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: `body.${setting}`, message }] },
    fix: `Install it without ${setting}, then upgrade: backplane plugin upgrade ${package_id}@${version}`,
  });
}

export async function planBindings(
  planner: BindingPlanner,
  caller: Caller,
  opened: Pick<OpenedSource, "kind" | "plugin">,
  parts: readonly ImportedPart[],
  settings: InstallationSettings,
): Promise<PlannedBinding[]> {
  requireSlots(opened, parts, settings);
  const planned: PlannedBinding[] = [];
  for (const part of parts)
    planned.push(...(await planPackage(planner, caller, part.row, planSettings(part, settings), settings)));
  requireDistinctNames(planned.flatMap(({ change }) => change ?? []));
  return planned;
}

async function planPackage(
  planner: BindingPlanner,
  caller: Caller,
  { package_id, version }: Package,
  requested_settings: ReadonlyMap<string, Settings>,
  { org_wide, rollout, config }: InstallationSettings,
): Promise<PlannedBinding[]> {
  const bound = await planner.listInScope(planner.resolveScope(caller, org_wide), package_id);
  const existing = bound.filter((binding) => !isEndedShare(binding));
  const findInThisVersion = (id: string) =>
    existing.find((binding) => binding.export_id === id && binding.package_version === version);
  // With a share of the calls each export gets a new binding, since a rollout needs both versions.
  const movable =
    rollout === undefined
      ? existing.filter(
          (binding) =>
            binding.package_version !== version && findInThisVersion(binding.export_id) === undefined,
        )
      : [];
  const settings_by_export = [...requested_settings].map(
    ([id, settings]) => [id, keepName(settings, movable, id, config)] as const,
  );
  const moves = await planner.moveAll(caller, movable, version, Object.fromEntries(settings_by_export));
  const planned: PlannedBinding[] = moves.map((change) => toPlanned(change, "moved"));
  for (const [export_id, settings] of requested_settings) {
    if (moves.some(({ row }) => row.export_id === export_id)) continue;
    const existing_binding = findInThisVersion(export_id);
    if (existing_binding === undefined) {
      const body = {
        package_id,
        package_version: version,
        export_id,
        ...definedFields({ org_wide }),
        ...settings,
      };
      planned.push(toPlanned(await planner.create(caller, body), "created"));
    } else planned.push({ result: { binding: existing_binding, change: "unchanged" }, change: null });
  }
  return planned;
}

/**
 * A server that moves to another version keeps its name, and with it the names of its tools, unless the request sets
 * one. The name that the source suggests applies only to new bindings.
 */
function keepName(
  planned: Settings,
  movable: readonly Binding[],
  export_id: string,
  requested_config: JsonObject | undefined,
): Settings {
  const before = movable.find((binding) => binding.export_id === export_id);
  if (before === undefined || planned.config === undefined || requested_config?.name !== undefined)
    return planned;
  const { config: before_config } = before;
  const { name: _suggested, ...config } = planned.config;
  const { config: _config, ...other_settings } = planned;
  if (Object.keys(config).length === 0) return other_settings;
  return { ...other_settings, config: { ...definedFields({ name: before_config.name }), ...config } };
}

function toPlanned(change: PlannedChange, kind: InstalledBinding["change"]): PlannedBinding {
  return { result: { binding: change.row as Binding, change: kind }, change };
}

/** Returns the settings of each export that is bound. The settings of the request override those of the source. */
function planSettings({ part, row }: ImportedPart, requested: InstallationSettings): Map<string, Settings> {
  const { runtime, exports } = row.manifest;
  if (runtime.protocol === "skills") return new Map([[WHOLE_PACKAGE, {}]]);
  if (isSelfDescribing(runtime.protocol)) {
    const settings = {
      config: mergeConfig(part.binding.config, requested.config),
      policy: mergePolicies(part.binding.policy, requested.policy),
      secrets: pickSlots(requested.secrets, runtime.permissions?.secret_slots ?? []),
      rollout: requested.rollout,
    };
    return new Map([[WHOLE_PACKAGE, definedFields(settings) as Settings]]);
  }
  const any_has_schema = exports.some((item) => item.config_schema !== undefined);
  return new Map(exports.map((item) => [item.id, selectExportSettings(item, requested, any_has_schema)]));
}

/**
 * Each export gets the requested secrets that it has slots for, and the requested configuration if it declares one. If
 * no export declares a configuration, all of them get the requested one.
 */
function selectExportSettings(
  item: PluginExport,
  requested: InstallationSettings,
  any_has_schema: boolean,
): Settings {
  const { config, secrets, policy, rollout } = requested;
  const settings = {
    config: any_has_schema && item.config_schema === undefined ? undefined : config,
    secrets: pickSlots(secrets, item.permissions.secret_slots),
    policy,
    rollout,
  };
  return definedFields(settings) as Settings;
}

function merge<T extends object>(from_source: T | undefined, requested: T | undefined): T | undefined {
  return from_source === undefined ? requested : { ...from_source, ...requested };
}

/** Variables of the request are added to those of the source. */
function mergeConfig(
  from_source: JsonObject | undefined,
  requested: JsonObject | undefined,
): JsonObject | undefined {
  const merged = merge(from_source, requested);
  if (merged === undefined || !isObject(from_source?.env) || !isObject(requested?.env)) return merged;
  return { ...merged, env: { ...from_source.env, ...requested.env } };
}

function mergePolicies(from_source: BindingPolicy | undefined, requested: BindingPolicy | undefined) {
  const secret_env = merge(from_source?.secret_env, requested?.secret_env);
  return merge(merge(from_source, requested), secret_env === undefined ? undefined : { secret_env });
}

function pickSlots(
  secrets: Record<string, string> | undefined,
  slots: readonly string[],
): Record<string, string> | undefined {
  const picked = Object.entries(secrets ?? {}).filter(([slot]) => slots.includes(slot));
  return picked.length === 0 ? undefined : Object.fromEntries(picked);
}

/** Refuses a secret that no part has a slot for, because it would be dropped silently. */
function requireSlots(
  { plugin }: Pick<OpenedSource, "plugin">,
  parts: readonly ImportedPart[],
  { secrets = {} }: InstallationSettings,
): void {
  const slots = parts.flatMap(({ row: { manifest } }) =>
    [manifest.runtime.permissions, ...manifest.exports.map((each) => each.permissions)].flatMap(
      (each) => each?.secret_slots ?? [],
    ),
  );
  const unknown = Object.keys(secrets).find((slot) => !slots.includes(slot));
  if (unknown === undefined) return;
  const subject =
    plugin === undefined ? `No export of ${parts[0]!.row.package_id}` : `No server of ${plugin.name}`;
  const message = `${subject} has the secret slot ${unknown}.`;
  throw new BackplaneError("binding.invalid", message, {
    details: { issues: [{ path: `/secrets/${unknown}`, message }], unknown_slot: unknown },
    fix: slots.length === 0 ? "Leave the secret out." : `Use one of: ${[...new Set(slots)].join(", ")}.`,
  });
}
