/** A tool of the gateway itself or of a loaded kernel plugin, as the catalog and the door use it. */
import type { JsonObject, KernelToolCall, KernelToolSpec, ToolReturn } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";

export interface RegisteredTool {
  spec: KernelToolSpec;
  plugin: string;
  version: string;
  mode: "inline" | "hosted";
  /** Its tools rank as those of bundled or of installed plugins; `core` are the gateway's own. */
  origin: "core" | "bundled" | "plugin";
  /** Empty: not known. */
  installed_at: string;
  /** Answers tool.call.request in onEvent; everything else about it is the same. */
  legacy: boolean;
  /** Another number is another life of the plugin. */
  generation: number;
  /** Of the plugin's code; a version alone does not say what it is. */
  digest?: string;
  /** A call goes on in the instance that it began in, also over a reload. What the plugin throws is thrown. */
  run(args: JsonObject, call: KernelToolCall & { scope: Scope }): Promise<ToolReturn>;
  /** The headline for the approval prompt; null when the tool has none to give. */
  brief(args: JsonObject): Promise<string | null>;
}

export interface ToolTable {
  get(name: string): RegisteredTool | null;
  /** By name. */
  list(): readonly RegisteredTool[];
}
