/** Every mutant that `npm run mutate` tries. */
import { ARTIFACT_DEFENCES } from "./artifacts.ts";
import { AUTHORING_DEFENCES } from "./authoring.ts";
import { AUTHORITY_DEFENCES } from "./authority.ts";
import { BACKUP_DEFENCES } from "./backups.ts";
import { ALLOW_RULE_MUTANTS } from "./behaviour/allow-rules.ts";
import { APPROVAL_MUTANTS } from "./behaviour/approvals.ts";
import { BINDING_SETTINGS_MUTANTS } from "./behaviour/binding-settings.ts";
import { BINDING_MUTANTS } from "./behaviour/bindings.ts";
import { CALL_MUTANTS } from "./behaviour/calls.ts";
import { CONTENT_MUTANTS } from "./behaviour/content.ts";
import { DEFERRED_TOOLS_MUTANTS } from "./behaviour/deferred-tools.ts";
import { DELIVERY_MUTANTS } from "./behaviour/deliveries.ts";
import { GRANT_MUTANTS } from "./behaviour/grants.ts";
import { HOOK_MUTANTS } from "./behaviour/hooks.ts";
import { INVOKE_MUTANTS } from "./behaviour/invoke.ts";
import { LOOP_MUTANTS } from "./behaviour/loop.ts";
import { POLICY_MUTANTS } from "./behaviour/policy.ts";
import { SUBAGENT_MUTANTS } from "./behaviour/subagents.ts";
import { TAPE_MUTANTS } from "./behaviour/tape.ts";
import { BEHAVIOUR } from "./behaviour.ts";
import { CALL_DEFENCES } from "./calls.ts";
import { CLIENT_DEFENCES } from "./clients.ts";
import { COMPACTION_DEFENCES } from "./compaction.ts";
import { DAMAGE_DEFENCES } from "./damage.ts";
import { DESTINATION_DEFENCES } from "./destinations.ts";
import { FENCE_DEFENCES } from "./fences.ts";
import { HARNESS_DEFENCES } from "./harness.ts";
import { HOME_DEFENCES } from "./home.ts";
import { HTTP_DEFENCES } from "./http.ts";
import { INSTALLATION_DEFENCES } from "./installations.ts";
import { INTEGRITY_DEFENCES } from "./integrity.ts";
import { LLM_ENDPOINT_DEFENCES } from "./llm-endpoints.ts";
import { MARKETPLACE_DEFENCES } from "./marketplace.ts";
import type { Mutant } from "./mutant.ts";
import { PACKAGE_DEFENCES } from "./packages.ts";
import { PLUGIN_DEFENCES } from "./plugins.ts";
import { PROCESS_DEFENCES } from "./processes.ts";
import { PROGRESS_DEFENCES } from "./progress.ts";
import { PYTHON_DEFENCES } from "./python.ts";
import { ROLLOUT_DEFENCES } from "./rollout.ts";
import { SANDBOX_DEFENCES } from "./sandbox.ts";
import { SHARED_PACKAGE_DEFENCES } from "./shared-packages.ts";
import { SIGNATURE_DEFENCES } from "./signatures.ts";
import { UPGRADE_DEFENCES } from "./upgrade.ts";
import { VERSION_DEFENCES } from "./versions.ts";

export const MUTANTS: Mutant[] = [
  ...BEHAVIOUR,
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
  ...SANDBOX_DEFENCES,
  ...ARTIFACT_DEFENCES,
  ...CALL_DEFENCES,
  ...AUTHORING_DEFENCES,
  ...CLIENT_DEFENCES,
  ...COMPACTION_DEFENCES,
  ...PACKAGE_DEFENCES,
  ...SHARED_PACKAGE_DEFENCES,
  ...PYTHON_DEFENCES,
  ...SIGNATURE_DEFENCES,
  ...UPGRADE_DEFENCES,
  ...VERSION_DEFENCES,
  ...ROLLOUT_DEFENCES,
  ...MARKETPLACE_DEFENCES,
  ...INSTALLATION_DEFENCES,
  ...PLUGIN_DEFENCES,
  ...FENCE_DEFENCES,
  ...HARNESS_DEFENCES,
  ...HTTP_DEFENCES,
  ...LLM_ENDPOINT_DEFENCES,
  ...PROCESS_DEFENCES,
  ...PROGRESS_DEFENCES,
  ...INTEGRITY_DEFENCES,
  ...DAMAGE_DEFENCES,
  ...HOME_DEFENCES,
  ...BACKUP_DEFENCES,
  ...AUTHORITY_DEFENCES,
  ...DESTINATION_DEFENCES,
];
