export { createBindings } from "./bindings/bindings.ts";
export {
  AUTHORIZATION_SLOT,
  hasOwnCredential,
  isRemote,
  loginCommand,
  serverUrl,
} from "./bindings/remote-server.ts";
export { pickBinding, sortForListing, sortProjectFirst, takesTraffic } from "./bindings/rollout.ts";
export type { TrialFailure } from "./bindings/rollbacks.ts";
export { createCachedConfig } from "./config/cached-config.ts";
export { auditDroppedCredentials, createConfig, maskValue } from "./config/config.ts";
export { effectiveConfig } from "./config/effective-config.ts";
export { fitsBytes } from "./config/json-size.ts";
export { createLiveConfig, type LiveConfig } from "./config/live-config.ts";
export {
  isAdminSettingKey,
  isPluginSettingField,
  PLUGIN_SETTINGS_SCOPE,
  type PluginSettings,
  parsePluginSettingKey,
  pluginSettingKey,
  readPluginSettings,
} from "./config/plugin-settings.ts";
export {
  ACTIVE_INSTANCE_KEY,
  ALLOW_PRIVATE_FIELD,
  activeInstanceId,
  groupInstances,
  isInstanceId,
  parseInstanceKey,
} from "./config/provider-instances.ts";
export { requireConfigSet, requirePluginAdmin, requirePluginOperator } from "./config/write-authority.ts";
export { createDefinitions, type DefinitionsService } from "./definitions/definitions.ts";
export { digestTool } from "./definitions/merge-description.ts";
export { createProcessRequest, sendProcessRequest } from "./definitions/process-request.ts";
export { type BindingSource, withDefinitions, withTools } from "./definitions/with-definitions.ts";
export { type ExportPlan, ExportPlans, narrowGrant, poolKey } from "./exports/export-plan.ts";
export { sanitizeExport } from "./exports/sanitize-export.ts";
export { bindsWholePackage, combineTools, selectExport, toolsOf } from "./exports/whole-package.ts";
export { callerLevel, gatewayDomains, levelBeforeCall, toGrant } from "./grant/effective-grant.ts";
export { effectiveClass } from "./grant/execution-class.ts";
export { intersect, type Level } from "./grant/intersect.ts";
export { combineGrants, listWiderParts } from "./grant/wider-parts.ts";
export type { InstallChecked } from "./installations/installations.ts";
export { randomToken, tokenHash } from "./keys/tokens.ts";
export { sortByDependencies } from "./packages/dependency-order.ts";
export { createPackageRows } from "./packages/package-rows.ts";
export { createPackages } from "./packages/packages.ts";
export {
  type CompiledLimits,
  type CompiledSelection,
  type EffectivePolicy,
  toleranceFor,
} from "./policy/effective-policy.ts";
export { normalizeCategory } from "./policy/merge-policies.ts";
export { Policies } from "./policy/policies.ts";
export { computeRisk } from "./policy/risk.ts";
export { findRuleHits, NO_RULES, type RuleHit } from "./policy/security-rules.ts";
export { compileToolPatterns } from "./policy/tool-pattern.ts";
export { createRegistryModule, type RegistryModule } from "./registry-module.ts";
export { parseSecretRef, readBindingSecrets } from "./secrets/binding-secrets.ts";
export { createSecrets } from "./secrets/secrets.ts";
export {
  EMPTY_SIGN_IN,
  loginSealName,
  type OAuthClient,
  readStoredSignIn,
  type SignInRecord,
  type SignInSession,
  type StoredSignIn,
  type TokenSource,
  type Tokens,
  writeSignIn,
} from "./secrets/sign-in-record.ts";
export {
  type IssuedTokens,
  MAX_RENEWALS,
  type SignInTokens,
  type TokenRevocation,
} from "./secrets/sign-in-tokens.ts";
export { createSkills, type Skills } from "./skills/skills.ts";
export { createWorkspaces } from "./workspaces/workspaces.ts";
