export { createBindings } from "./bindings/bindings.ts";
export {
  AUTHORIZATION_SLOT,
  hasOwnCredential,
  isRemote,
  loginCommand,
  serverUrl,
} from "./bindings/remote-server.ts";
export { inOrder, pickBinding, takesTraffic } from "./bindings/rollout.ts";
export { cachedConfig } from "./config/cached-config.ts";
export { createConfig } from "./config/config.ts";
export { recordDropped } from "./config/dropped.ts";
export { fitsBytes } from "./config/json-size.ts";
export { createLiveConfig, type LiveConfig } from "./config/live-config.ts";
export { maskValue } from "./config/mask.ts";
export { requirePluginAdmin, requirePluginOperator } from "./config/plugin-authority.ts";
export {
  isOwnField,
  isPluginGrantKey,
  type PluginSettings,
  readSettings,
  SETTINGS_SCOPE,
  settingKey,
  settingOfKey,
} from "./config/plugin-settings.ts";
export {
  ACTIVE_KEY,
  ALLOW_PRIVATE,
  activeInstanceId,
  groupInstances,
  instanceOfKey,
  isInstanceId,
} from "./config/provider-instances.ts";
export { requireConfigSet } from "./config/write-rules.ts";
export { toolDigest } from "./definitions/compare.ts";
export { createDefinitions, type DefinitionsRoom } from "./definitions/definitions.ts";
export { askWithSecrets, processOrder } from "./definitions/process-order.ts";
export { type BindingSource, withDefinitions } from "./definitions/with-definitions.ts";
export { type ExportPlan, ExportPlans, narrowed, poolKey } from "./exports/export-plan.ts";
export { shownWords } from "./exports/sanitize-text.ts";
export { asExport, isWhole, toolsOf, wholeExport } from "./exports/whole-package.ts";
export { callerLevel, outwardDomains, standingLevel, toGrant } from "./grant/effective.ts";
export { effectiveClass } from "./grant/execution-class.ts";
export { intersect, type Level } from "./grant/intersect.ts";
export { DELEGATION_PREFIX, mintDelegation, randomToken, tokenHash } from "./keys/delegation.ts";
export { orderByRequires } from "./packages/dependency-order.ts";
export { createPackageRows } from "./packages/package-rows.ts";
export { createPackages } from "./packages/packages.ts";
export { Policies } from "./policy/policies.ts";
export { plainCategory } from "./policy/policy-document.ts";
export { hitsOf, NO_RULES, type RuleHit } from "./policy/security-rules.ts";
export type { CompiledSelection, StandingPolicy } from "./policy/standing-policy.ts";
export { secretName, secretsOf } from "./secrets/binding-secrets.ts";
export { createSecrets } from "./secrets/secrets.ts";
export {
  loginSeal,
  NOTHING,
  type OAuthClient,
  readSignIn,
  type SignInRecord,
  type SignInSession,
  type StoredSignIn,
  type TokenSource,
  type Tokens,
  writeSignIn,
} from "./secrets/sign-in-record.ts";
export {
  type GiveBack,
  type GivenTokens,
  MAX_RENEWALS,
  type SignInTokens,
} from "./secrets/sign-in-tokens.ts";
export { createSkills, type Skills } from "./skills/skills.ts";
export { createWorkspaces } from "./workspaces/workspaces.ts";
