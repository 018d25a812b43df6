export { createRunner, type ProcessRunner } from "./create-runner.ts";
export type { RunnerOptions } from "./runner-options.ts";
export { type AllowList, allowList } from "./egress/allow-list.ts";
export { createPlaceCheck, type PlaceCheck } from "./egress/checked-place.ts";
export type { OutwardRules } from "./egress/guarded-requests.ts";
export type { EgressLimits } from "./egress/limits.ts";
export type { InstrumentServices, ServiceUser } from "./instruments/inline-seat.ts";
export {
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
  type ModuleHostTimeouts,
} from "./module-host/create-module-host.ts";
export { DEFAULT_SANDBOX_LIMITS, type SandboxLimits } from "./sandbox/limits.ts";
export type { SandboxOptions } from "./sandbox/make-sandbox.ts";
export { sandboxStatus } from "./sandbox/open-sandbox.ts";
export type { SandboxCheck, SandboxStatus } from "./sandbox/status.ts";
export {
  DEFAULT_LIMITS,
  DEFAULT_TIMEOUTS,
  type Interpreters,
  PLUGIN_PATH,
  type RunnerLimits,
  type RunnerTimeouts,
} from "./settings.ts";
