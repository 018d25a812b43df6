/** Every mutant that `npm run mutate` tries. */
import { ARTIFACT_DEFENSES } from "./artifacts.ts";
import { AUTHORING_DEFENSES } from "./authoring.ts";
import { AUTHORITY_DEFENSES } from "./authority.ts";
import { BACKUP_DEFENSES } from "./backups.ts";
import { ALLOW_RULE_MUTANTS } from "./behavior/allow-rules.ts";
import { APPROVAL_MUTANTS } from "./behavior/approvals.ts";
import { BINDING_SETTINGS_MUTANTS } from "./behavior/binding-settings.ts";
import { BINDING_MUTANTS } from "./behavior/bindings.ts";
import { CALL_MUTANTS } from "./behavior/calls.ts";
import { CONTENT_MUTANTS } from "./behavior/content.ts";
import { DEFERRED_TOOLS_MUTANTS } from "./behavior/deferred-tools.ts";
import { DELIVERY_MUTANTS } from "./behavior/deliveries.ts";
import { GRANT_MUTANTS } from "./behavior/grants.ts";
import { HOOK_MUTANTS } from "./behavior/hooks.ts";
import { INVOKE_MUTANTS } from "./behavior/invoke.ts";
import { LOOP_MUTANTS } from "./behavior/loop.ts";
import { POLICY_MUTANTS } from "./behavior/policy.ts";
import { SUBAGENT_MUTANTS } from "./behavior/subagents.ts";
import { TAPE_MUTANTS } from "./behavior/tape.ts";
import { BEHAVIOR } from "./behavior.ts";
import { CALL_DEFENSES } from "./calls.ts";
import { CLIENT_DEFENSES } from "./clients.ts";
import { COMPACTION_DEFENSES } from "./compaction.ts";
import { DAMAGE_DEFENSES } from "./damage.ts";
import { DESTINATION_DEFENSES } from "./destinations.ts";
import { FENCE_DEFENSES } from "./fences.ts";
import { HARNESS_DEFENSES } from "./harness.ts";
import { HOME_DEFENSES } from "./home.ts";
import { HTTP_DEFENSES } from "./http.ts";
import { INSTALLATION_DEFENSES } from "./installations.ts";
import { INTEGRITY_DEFENSES } from "./integrity.ts";
import { LLM_ENDPOINT_DEFENSES } from "./llm-endpoints.ts";
import { MARKETPLACE_DEFENSES } from "./marketplace.ts";
import type { Mutant } from "./mutant.ts";
import { PACKAGE_DEFENSES } from "./packages.ts";
import { PLUGIN_DEFENSES } from "./plugins.ts";
import { PROCESS_DEFENSES } from "./processes.ts";
import { PROGRESS_DEFENSES } from "./progress.ts";
import { PYTHON_DEFENSES } from "./python.ts";
import { ROLLOUT_DEFENSES } from "./rollout.ts";
import { SANDBOX_DEFENSES } from "./sandbox.ts";
import { SHARED_PACKAGE_DEFENSES } from "./shared-packages.ts";
import { SIGNATURE_DEFENSES } from "./signatures.ts";
import { UPGRADE_DEFENSES } from "./upgrade.ts";
import { VERSION_DEFENSES } from "./versions.ts";

export const MUTANTS: Mutant[] = [
  ...BEHAVIOR,
  ...CONTENT_MUTANTS,
  ...TAPE_MUTANTS,
  ...LOOP_MUTANTS,
  ...SUBAGENT_MUTANTS,
  ...INVOKE_MUTANTS,
  ...DELIVERY_MUTANTS,
  ...HOOK_MUTANTS,
  ...CALL_MUTANTS,
  ...APPROVAL_MUTANTS,
  ...ALLOW_RULE_MUTANTS,
  ...BINDING_MUTANTS,
  ...BINDING_SETTINGS_MUTANTS,
  ...GRANT_MUTANTS,
  ...POLICY_MUTANTS,
  ...DEFERRED_TOOLS_MUTANTS,
  ...SANDBOX_DEFENSES,
  ...ARTIFACT_DEFENSES,
  ...CALL_DEFENSES,
  ...AUTHORING_DEFENSES,
  ...CLIENT_DEFENSES,
  ...COMPACTION_DEFENSES,
  ...PACKAGE_DEFENSES,
  ...SHARED_PACKAGE_DEFENSES,
  ...PYTHON_DEFENSES,
  ...SIGNATURE_DEFENSES,
  ...UPGRADE_DEFENSES,
  ...VERSION_DEFENSES,
  ...ROLLOUT_DEFENSES,
  ...MARKETPLACE_DEFENSES,
  ...INSTALLATION_DEFENSES,
  ...PLUGIN_DEFENSES,
  ...FENCE_DEFENSES,
  ...HARNESS_DEFENSES,
  ...HTTP_DEFENSES,
  ...LLM_ENDPOINT_DEFENSES,
  ...PROCESS_DEFENSES,
  ...PROGRESS_DEFENSES,
  ...INTEGRITY_DEFENSES,
  ...DAMAGE_DEFENSES,
  ...HOME_DEFENSES,
  ...BACKUP_DEFENSES,
  ...AUTHORITY_DEFENSES,
  ...DESTINATION_DEFENSES,
];
