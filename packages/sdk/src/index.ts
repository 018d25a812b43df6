export type { ArtifactRef, Block, ContentBlock } from "@backplane/contract";
export type { Call, HarnessCall, HookCall, PluginEvent, ToolCall } from "./call.ts";
export type {
  AgentAction,
  AgentPermission,
  Checkpoint,
  ChildRun,
  ChildRunRequest,
  CompactAnswer,
  CompactRequest,
  HarnessAnswer,
  HarnessRequest,
  HookEvent,
  SeedBlock,
  ToolAnswer,
} from "./contracts.ts";
export {
  type CompactorExport,
  compactor,
  definePlugin,
  type ExportDefinition,
  type HarnessExport,
  type HookExport,
  harness,
  hook,
  type Plugin,
  type ToolExport,
  tool,
} from "./define.ts";
export type { GatewayAccess } from "./gateway-access.ts";
export type { FromSchema, JsonSchema } from "./json-schema.ts";
export { fail, retryLater } from "./outcome.ts";
export { serve } from "./serve.ts";
