/** Values and types without zod, so that a plugin which imports this starts fast. Schemas: ./schema. */
export type * from "./agent-rows.ts";
export * from "./artifact.ts";
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
  PLUGIN_CATEGORIES,
  type PluginCategory,
} from "./bus-kinds.ts";
export type * from "./catalog.ts";
export { type CheckedInstruments, checkInstruments, instrumentProviderOf } from "./check-instruments.ts";
export { isPluginName, kernelPluginProblem } from "./check-kernel-plugin.ts";
export {
  CONFIG_KEY_PATTERN,
  configGroupOf,
  configPrefixOf,
  isConfigKey,
  isDestinationConfig,
  isSecretConfigKey,
} from "./config-key.ts";
export type { DiscoveredExport, ValidationReport } from "./discovery.ts";
export { BackplaneError, codeOf, type ErrorDetails, ownFix, toBackplaneError, withFix } from "./error.ts";
export { ERROR_CODES, type ErrorCode, isErrorCode } from "./error-codes.ts";
export type { ErrorSpec } from "./error-spec.ts";
export { IdTable } from "./id-table.ts";
export { createIdSource, ID_PREFIXES, type IdNoun, type IdSource, idAt, isId } from "./ids.ts";
export * from "./instrument.ts";
export {
  INSTRUMENT_API,
  INSTRUMENT_API_SOURCE,
  instrumentResult,
  type StdioResult,
} from "./instrument-result.ts";
export { canonicalJson, isObject, type Json, type JsonObject } from "./json.ts";
export { spendJson } from "./json-budget.ts";
export * from "./kernel-plugin.ts";
export { isPartFault, leftOut } from "./left-out.ts";
export * from "./limits.ts";
export * from "./llm.ts";
export * from "./loop.ts";
export * from "./module-host.ts";
export {
  HIDDEN_MARK,
  type HiddenWords,
  hiddenIn,
  hiddenText,
  plainJson,
  plainWords,
} from "./plain-words.ts";
export { createRedactor, REDACTED, type Redactor, type TextRange } from "./redact.ts";
export * from "./risk.ts";
export type * from "./schema/index.ts";
export { plainName, serverName } from "./server-name.ts";
export { type Soon, whenThere } from "./soon.ts";
export * from "./tool-files.ts";
export * from "./vocabulary.ts";
