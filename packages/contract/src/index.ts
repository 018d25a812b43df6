/** Values and types without zod, so that a plugin that imports this module starts fast. The schemas are in ./schema. */

export {
  BackplaneError,
  codeOf,
  detailsWithFix,
  diskErrorOf,
  diskFault,
  type ErrorDetails,
  specificFix,
  toBackplaneError,
} from "./errors/error.ts";
export { ERROR_CODES, type ErrorCode, isErrorCode } from "./errors/error-codes.ts";
export type { ErrorSpec } from "./errors/error-spec.ts";
export {
  type CheckedInstruments,
  checkInstruments,
  findInstrumentProvider,
} from "./plugins/check-instruments.ts";
export {
  isPluginName,
  findKernelPluginProblem,
  findKernelToolProblem,
} from "./plugins/check-kernel-plugin.ts";
export { findCompactorIssue, findHarnessIssue, parseToolResult } from "./plugins/check-results.ts";
export * from "./plugins/instrument.ts";
export {
  INSTRUMENT_API,
  INSTRUMENT_API_SOURCE,
  instrumentReturn,
  type StdioResult,
} from "./plugins/instrument-return.ts";
export * from "./plugins/kernel-plugin.ts";
export * from "./plugins/llm.ts";
export * from "./plugins/loop.ts";
export * from "./plugins/module-host.ts";
export { failureNote, refusalKind, toolFailureOf } from "./plugins/tool-failure.ts";
export * from "./plugins/tool-files.ts";
export type * from "./schema/index.ts";
export * from "./values/artifact.ts";
export { compareVersions } from "./values/compare-versions.ts";
export * from "./values/content-block.ts";
export { definedFields } from "./values/defined-fields.ts";
export { editedVersion, manifestVersion } from "./values/edited-version.ts";
export { eventText } from "./values/event-text.ts";
export { TOKEN_PREFIX_SOURCE, TOKEN_PREFIXES } from "./values/gateway-tokens.ts";
export { IdTable } from "./values/id-table.ts";
export { createIdSource, ID_PREFIXES, type IdNoun, type IdSource, idAt, isId } from "./values/ids.ts";
export { canonicalJson, isObject, isRecord, type Json, type JsonObject } from "./values/json.ts";
export { remainingJsonBudget } from "./values/json-budget.ts";
export { type MaybePromise, mapMaybe } from "./values/maybe-promise.ts";
export {
  dependencyLockOf,
  SIGNATURE_FILE,
  SIGNATURE_FORMAT,
  signedText,
} from "./values/package-signature.ts";
export { createRedactor, REDACTED, type Redactor, type TextRange } from "./values/redact.ts";
export {
  describeHiddenCharacters,
  findHiddenCharacters,
  HIDDEN_MARK,
  type HiddenCharacters,
  sanitizeJson,
  sanitizeText,
} from "./values/sanitize-text.ts";
export { fillPlaceholders, placeholderSlots } from "./values/secret-placeholders.ts";
export { boundServerName, plainName, serverName } from "./values/server-name.ts";
export type * from "./views/catalog.ts";
export { comparePackages, compareWithEntry } from "./views/compare-packages.ts";
export {
  type DescribedPermission,
  describePermissions,
  permissionDetails,
} from "./views/describe-permissions.ts";
export { compareProvenance, describeProvenance } from "./views/describe-provenance.ts";
export type { DiscoveredExport, ValidationReport } from "./views/discovery.ts";
export { formatHeldFlags } from "./views/held-upgrade.ts";
export { findPackageSource } from "./views/package-source.ts";
export type * from "./views/plugins.ts";
export { selectRollback } from "./views/rollback.ts";
export { isPartError, toLeftOut } from "./views/unusable-parts.ts";
export {
  AGENT_SEPARATOR,
  BRIDGE_PREFIX,
  BUNDLED_PREFIXES,
  BUS_KINDS,
  BUS_LIMITS,
  type BusKind,
  type BusKindSpec,
  extensionPrefix,
  isBusKind,
  KERNEL_SESSION,
  MCP_BRIDGE_SESSION,
  MODEL_BRIDGES,
  type ModelBridge,
  PLUGIN_CATEGORIES,
  type PluginCategory,
} from "./vocabulary/bus-kinds.ts";
export {
  CONFIG_KEY_PATTERN,
  configGroupOf,
  configPrefixOf,
  isConfigKey,
  isDestinationConfig,
  isSecretConfigKey,
} from "./vocabulary/config-key.ts";
export * from "./vocabulary/limits.ts";
export * from "./vocabulary/mcp.ts";
export * from "./vocabulary/progress.ts";
export * from "./vocabulary/risk.ts";
export * from "./vocabulary/vocabulary.ts";
