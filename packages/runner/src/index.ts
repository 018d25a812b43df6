export { createRunner, type RunnerOptions } from "./create-runner.ts";
export {
  DEFAULT_LIMITS,
  DEFAULT_TIMEOUTS,
  type Interpreters,
  PLUGIN_PATH,
  type RunnerLimits,
  type RunnerTimeouts,
} from "./settings.ts";
