export { type AllowList, allowList } from "./egress/destinations/allow-list.ts";
export { type AddressCheck, createAddressCheck } from "./egress/gateway-requests/address-check.ts";
export type { OutboundRules } from "./egress/gateway-requests/guarded-requests.ts";
export type { EgressLimits } from "./egress/proxy/limits.ts";
export type { InstrumentServices, ServiceUser } from "./inline/inline-provider.ts";
export {
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
  type ModuleHostTimeouts,
} from "./module-host/create-module-host.ts";
export {
  DEFAULT_LIMITS,
  DEFAULT_TIMEOUTS,
  type Interpreters,
  PLUGIN_PATH,
  type RunnerLimits,
  type RunnerTimeouts,
} from "./ports/settings.ts";
export { createRunner, type ProcessRunner } from "./runner/create-runner.ts";
export type { RunnerOptions } from "./runner/runner-options.ts";
export type { ProgramExit, ProgramRequest, StartedProgram } from "./runner/start-program.ts";
export { DEFAULT_SANDBOX_LIMITS, type SandboxLimits } from "./sandbox/limits.ts";
export { readSandboxStatus } from "./sandbox/open-sandbox.ts";
export type { SandboxOptions } from "./sandbox/sandbox-parts.ts";
export type { SandboxCheck, SandboxStatus } from "./sandbox/status.ts";
