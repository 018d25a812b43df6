/**
 * The module that authors of kernel plugins import. It is loaded with every plugin, so it stays small and
 * does not import zod.
 */
export {
  type AdapterRequest,
  type AdapterResponse,
  type AdapterRoute,
  type AgentLoopState,
  BackplaneError,
  type BusEvent,
  type BusPayload,
  type ChatMessage,
  type ContentBlock,
  codeOf,
  type Decision,
  type DisplayBlock,
  type Embeddings,
  type EmbedRequest,
  type GenerateRequest,
  type HealthDetail,
  type HealthReport,
  type HealthStatus,
  type Json,
  type JsonObject,
  KERNEL_SESSION,
  type KernelPlugin,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  type LlmErrorKind,
  type LlmFailure,
  type LlmOptions,
  type LlmPart,
  type LlmProvider,
  type LlmTool,
  type MemoryEntry,
  type NativeRequest,
  type PluginCategory,
  type PluginContext,
  type PluginLog,
  type ProviderInstance,
  type ProvidersView,
  pluginNamespace,
  type StopSignal,
  type ThinkingBlock,
  TOOL_ERROR_KINDS,
  type TokenUsage,
  type ToolCallRequest,
  type ToolError,
  type ToolErrorKind,
  type ToolOk,
  type ToolReturn,
  tokenUsage,
} from "@backplane/contract";
export type { FromSchema, JsonSchema } from "../json-schema.ts";
export { defineKernelPlugin } from "./define-kernel-plugin.ts";
export { type KernelToolDefinition, kernelTool, openaiFunction } from "./kernel-tool.ts";
export {
  type AcceptedMedia,
  type ContentPiece,
  contentPieces,
  type MediaPiece,
  mediaPieces,
  pieceText,
  textOf,
} from "./llm-content.ts";
export { brokenStream, classifyFailure, LlmCallError, vendorCode } from "./llm-failure.ts";
export { type InstanceHealth, type LlmProviderOptions, llmProviderPlugin } from "./llm-provider.ts";
export { vendorStream } from "./llm-stream.ts";
export {
  configNumber,
  configText,
  configTimeout,
  isVendorUrl,
  lazyVendorClient,
  MODELS_FIELD,
  TIMEOUT_FIELD,
  type VendorAccess,
  vendorHealth,
  withStatusOf,
} from "./llm-vendor.ts";
export { jsonBlock, markdownBlock, textBlock, toolError, toolOk } from "./tool-return.ts";
export { createVendorTransport } from "./vendor-fetch.ts";
