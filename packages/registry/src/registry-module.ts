/**
 * Builds the registry: configuration, policies, packages, installations, the marketplace, bindings, definitions,
 * workspaces, skills, secrets and trusted keys.
 */

import type { BoundPackage, Changes, Kernel, KernelDeps } from "@backplane/ports";
import { createBindings } from "./bindings/bindings.ts";
import { createChangeEffects } from "./bindings/change-effects.ts";
import type { PackageFinder } from "./bindings/check-binding.ts";
import { createCredentialMoves } from "./bindings/move-binding.ts";
import { createNameAuthority } from "./bindings/name-authority.ts";
import { createBindingPlanner } from "./bindings/plan-change.ts";
import { createVersionProbe } from "./bindings/probe-versions.ts";
import { createUpgradeCandidates, type UpgradeCandidates } from "./bindings/upgrade-candidates.ts";
import { createRollbacks, type Rollbacks } from "./bindings/rollbacks.ts";
import { createChangeWriter } from "./bindings/store-changes.ts";
import { createUpgrades } from "./bindings/upgrades.ts";
import { createWaivedApprovals } from "./bindings/waived-approvals.ts";
import { createCachedConfig } from "./config/cached-config.ts";
import { createConfig } from "./config/config.ts";
import { createLiveConfig, type LiveConfig } from "./config/live-config.ts";
import { createDefinitions, type DefinitionsService } from "./definitions/definitions.ts";
import { ExportPlans } from "./exports/export-plan.ts";
import { createInstallations, type InstallChecked } from "./installations/installations.ts";
import { createMarketplace } from "./marketplace/marketplace.ts";
import { createPackageRows } from "./packages/package-rows.ts";
import { createPackages } from "./packages/packages.ts";
import { Policies } from "./policy/policies.ts";
import { createSecrets } from "./secrets/secrets.ts";
import type { SignInTokens, TokenRevocation } from "./secrets/sign-in-tokens.ts";
import { createSignaturePolicy } from "./signatures/signature-policy.ts";
import { createTrustedKeys } from "./signatures/trusted-keys.ts";
import { createSkills, type Skills } from "./skills/skills.ts";
import { createOutdated } from "./versions/outdated.ts";
import { createWorkspaces } from "./workspaces/workspaces.ts";

interface RegistryModuleOptions {
  changes: Changes;
  tokens: SignInTokens;
  revocation: TokenRevocation;
  /** Throws when a binding may not be described yet, because a plugin that it depends on is not loaded. */
  requireReady: (bound: BoundPackage) => Promise<void>;
}

export interface RegistryModule {
  /** Reads from the store every time. */
  live_config: LiveConfig;
  /** Cached briefly, because every step of a turn reads it. */
  cached_config: LiveConfig;
  policies: Policies;
  plans: ExportPlans;
  definitions: DefinitionsService;
  skills: Skills;
  installChecked: InstallChecked;
  upgrades: UpgradeCandidates & Pick<Rollbacks, "rollBackTrial">;
  facade: Pick<
    Kernel,
    "installations" | "marketplace" | "bindings" | "workspaces" | "secrets" | "trusted_keys" | "config"
  > & {
    packages: Omit<Kernel["packages"], "replay">;
    definitions: Kernel["definitions"];
    policy: Pick<Kernel["policy"], "get" | "put" | "patch">;
  };
  start(): Promise<void>;
  stop(): Promise<void>;
}

export function createRegistryModule(deps: KernelDeps, options: RegistryModuleOptions): RegistryModule {
  const { changes, tokens, revocation } = options;
  const live_config = createLiveConfig(deps, changes);
  const policies = new Policies({ ...deps, changes });
  const definitions = createDefinitions({
    deps,
    policies,
    tokens,
    changes,
    requireReady: options.requireReady,
  });
  const rows = createPackageRows(deps);
  const waivers = createWaivedApprovals({ ...deps, policies });
  const name_authority = createNameAuthority({ ...deps, policies });
  const createPlanner = (packages: PackageFinder) =>
    createBindingPlanner(
      deps,
      createCredentialMoves(deps, revocation, packages),
      packages,
      waivers,
      name_authority,
    );
  const planner = createPlanner(deps.store.packages);
  const credentials = createCredentialMoves(deps, revocation, deps.store.packages);
  const effects = createChangeEffects({ deps, definitions, credentials, changes });
  const versions = createVersionProbe({ deps, policies, tokens, definitions });
  const storeChanges = createChangeWriter(deps, planner, revocation);
  const upgrades = createUpgrades({ deps, planner, effects, versions, storeChanges });
  const rollbacks = createRollbacks({ deps, planner, effects, storeChanges });
  const bindings = createBindings({ deps, planner, effects, versions, upgrades, rollbacks, storeChanges });
  const installations = createInstallations({
    deps,
    rows,
    createPlanner,
    effects,
    versions,
    signatures: createSignaturePolicy(deps),
  });
  const workspaces = createWorkspaces({
    deps,
    rows,
    definitions,
    bindings,
    folders: deps.folders,
    installLinked: installations.installLinked,
  });
  const marketplace = createMarketplace(deps, installations.installChecked);
  const skills = createSkills(deps);
  changes.on("catalog.changed", () => skills.forget());
  return {
    live_config,
    cached_config: createCachedConfig(live_config, deps.clock),
    policies,
    plans: new ExportPlans(deps),
    definitions,
    skills,
    installChecked: installations.installChecked,
    upgrades: {
      ...createUpgradeCandidates(deps, policies, planner),
      rollBackTrial: (binding, cause) => rollbacks.rollBackTrial(binding, cause),
    },
    facade: {
      installations: installations.installations,
      packages: {
        ...createPackages(deps, rows),
        ...installations.packages,
        listOutdated: createOutdated(deps, installations.installations),
      },
      marketplace,
      bindings,
      workspaces: workspaces.facade,
      definitions: definitions.facade,
      secrets: createSecrets(deps),
      trusted_keys: createTrustedKeys(deps),
      config: createConfig(deps, live_config),
      policy: {
        get: (caller, level) => policies.get(caller, level),
        put: (caller, level, policy, expected) => policies.put(caller, level, policy, expected),
        patch: (caller, level, patch, expected) => policies.patch(caller, level, patch, expected),
      },
    },
    start: () => workspaces.start(),
    stop: () => workspaces.stop(),
  };
}
