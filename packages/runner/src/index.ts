export { createRunner, type RunnerOptions } from "./create-runner.ts";
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
} from "./settings.ts";
