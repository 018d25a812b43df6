/** For authors: plugin templates and the conformance suite. */
export { formatJunit } from "./conformance/junit.ts";
export type { ConformanceReport, Failure, RuleResult } from "./conformance/report.ts";
export { SIDE_RULES, VAI_RULES } from "./conformance/rules.ts";
export {
  type ConformanceOptions,
  type ConformanceSuite,
  openConformanceSuite,
} from "./conformance/run-conformance.ts";
export {
  type CreatedPlugin,
  createPlugin,
  KINDS,
  LANGUAGES,
  type Language,
  type NewPlugin,
  parsePluginName,
  type TemplateKind,
} from "./templates/create-plugin.ts";
