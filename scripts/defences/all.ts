/** Every mutant that `npm run mutate` tries. */
import { ARTIFACT_DEFENCES } from "./artifacts.ts";
import { AUTHORITY_DEFENCES } from "./authority.ts";
import { BINDING_MUTANTS } from "./behaviour/bindings.ts";
import { GRANT_MUTANTS } from "./behaviour/grants.ts";
import { POLICY_MUTANTS } from "./behaviour/policy.ts";
import { BEHAVIOUR } from "./behaviour.ts";
import { CALL_DEFENCES } from "./calls.ts";
import { COMPACTION_DEFENCES } from "./compaction.ts";
import { DAMAGE_DEFENCES } from "./damage.ts";
import { DESTINATION_DEFENCES } from "./destinations.ts";
import { FENCE_DEFENCES } from "./fences.ts";
import { HOME_DEFENCES } from "./home.ts";
import { HTTP_DEFENCES } from "./http.ts";
import { INSTALLATION_DEFENCES } from "./installations.ts";
import { INTEGRITY_DEFENCES } from "./integrity.ts";
import type { Mutant } from "./mutant.ts";
import { PACKAGE_DEFENCES } from "./packages.ts";
import { PLUGIN_DEFENCES } from "./plugins.ts";
import { PROCESS_DEFENCES } from "./processes.ts";
import { SANDBOX_DEFENCES } from "./sandbox.ts";
import { UPGRADE_DEFENCES } from "./upgrade.ts";

export const MUTANTS: Mutant[] = [
  ...BEHAVIOUR,
  ...BINDING_MUTANTS,
  ...GRANT_MUTANTS,
  ...POLICY_MUTANTS,
  ...SANDBOX_DEFENCES,
  ...ARTIFACT_DEFENCES,
  ...CALL_DEFENCES,
  ...COMPACTION_DEFENCES,
  ...PACKAGE_DEFENCES,
  ...UPGRADE_DEFENCES,
  ...INSTALLATION_DEFENCES,
  ...PLUGIN_DEFENCES,
  ...FENCE_DEFENCES,
  ...HTTP_DEFENCES,
  ...PROCESS_DEFENCES,
  ...INTEGRITY_DEFENCES,
  ...DAMAGE_DEFENCES,
  ...HOME_DEFENCES,
  ...AUTHORITY_DEFENCES,
  ...DESTINATION_DEFENCES,
];
