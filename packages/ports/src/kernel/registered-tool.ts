/** A tool of the gateway itself or of a loaded kernel plugin, as the catalog and the door use it. */
import type { JsonObject, KernelToolCall, KernelToolSpec, ToolReturn } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";

export interface RegisteredTool {
  spec: KernelToolSpec;
  plugin: string;
  version: string;
  mode: "inline" | "hosted";
  /** Decides which tool wins a name collision; `core` marks the gateway's own tools. */
  origin: "core" | "bundled" | "plugin";
  /** Empty if unknown. */
  installed_at: string;
  /** The tool answers tool.call.request in onEvent; it is otherwise treated like any other tool. */
  legacy: boolean;
  /** Increases with every load of the plugin. */
  generation: number;
  /** Digest of the plugin's code, because the code may change without a new version. */
  digest?: string;
  /** A call stays in the instance where it began, even across a reload. Rejects with the plugin's own error. */
  run(args: JsonObject, call: KernelToolCall & { scope: Scope }): Promise<ToolReturn>;
  /** The one-line description for the approval prompt; null if the tool provides none. */
  brief(args: JsonObject): Promise<string | null>;
  /** Resolves to false if the tool denies the call or fails to answer. If absent, the tool cannot deny calls. */
  preApprove?: (args: JsonObject) => Promise<boolean>;
}

export interface ToolTable {
  get(name: string): RegisteredTool | null;
  /** Sorted by name. */
  list(): readonly RegisteredTool[];
}

/**
 * Prefixes of the binding ids of registered tools. Stored bindings have generated ids, so no package can obtain one of
 * these.
 */
export const TOOL_BINDING_PREFIX = { kernel: "bind_kernel_", core: "bind_core_" } as const;

/** Whether a call ran a tool of the gateway or of a kernel plugin, and not a bound export of a package. */
export function isRegisteredTool(binding_id: string): boolean {
  return binding_id.startsWith(TOOL_BINDING_PREFIX.kernel) || binding_id.startsWith(TOOL_BINDING_PREFIX.core);
}
