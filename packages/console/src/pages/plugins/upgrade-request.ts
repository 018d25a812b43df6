/** The request that upgrades the bindings of a package, and the command that sends the same request. */
import type { BindingUpgrade } from "@backplane/contract";

const DEFAULT_TRIAL_S = 60;

export interface UpgradeChoices {
  package_id: string;
  package_version: string;
  /** The share of the calls that the new version gets. */
  percent: number;
  new_permissions: NonNullable<BindingUpgrade["new_permissions"]>;
  trial_seconds: number;
  org_wide: boolean;
}

export const DEFAULT_UPGRADE = {
  percent: 100,
  new_permissions: "hold",
  trial_seconds: DEFAULT_TRIAL_S,
} as const;

export function upgradeRequest(choices: UpgradeChoices): BindingUpgrade {
  const { package_id, package_version, percent, new_permissions, trial_seconds, org_wide } = choices;
  return {
    package_id,
    package_version,
    percent,
    new_permissions,
    trial: { seconds: trial_seconds },
    ...(org_wide ? { org_wide: true } : {}),
  };
}

export function upgradeCommand(choices: UpgradeChoices): string[] {
  const { package_id, package_version, percent, new_permissions, trial_seconds, org_wide } = choices;
  return [
    "backplane",
    "plugin",
    "upgrade",
    `${package_id}@${package_version}`,
    ...(new_permissions === "grant" ? ["--grant-permissions"] : []),
    ...(new_permissions === "withhold" ? ["--withhold-permissions"] : []),
    ...(percent === 100 ? [] : ["--percent", String(percent)]),
    ...(trial_seconds === DEFAULT_TRIAL_S ? [] : ["--trial", String(trial_seconds)]),
    ...(org_wide ? ["--org-wide"] : []),
  ];
}
