export {
  type EmittedEvent,
  type KernelTestOptions,
  type KernelTestRun,
  testKernelPlugin,
} from "../kernel/testing.ts";
export { checkManifest, type ManifestLike } from "./check-manifest.ts";
export { type ContextOptions, testContext } from "./context.ts";
export {
  type CallOptions,
  connectPlugin,
  type Outcome,
  type PluginRun,
  type TestEvent,
  type ToolOutcome,
} from "./plugin-run.ts";
export { type MemoryRun, runPlugin } from "./run-plugin.ts";
export { type ProcessOptions, type ProcessRun, startPlugin } from "./start-process.ts";
