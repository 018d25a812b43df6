/**
 * The definitions of a plugin's exports. `tool`, `hook`, `compactor` and `harness` type the author's function
 * and then erase the types, so that one list can hold all exports; the gateway checks the values against the
 * same schemas.
 */
import { BackplaneError, type Json, type JsonObject, type SemanticEventType } from "@backplane/contract";
import type { Call, HarnessCall, HookCall, ToolCall } from "./call.ts";
import type {
  CompactAnswer,
  CompactRequest,
  HarnessAnswer,
  HarnessRequest,
  HookEvent,
  ToolAnswer,
} from "./contracts.ts";
import type { FromSchema, JsonSchema } from "./json-schema.ts";

type Awaitable<T> = T | Promise<T>;

export interface ToolExport {
  readonly kind: "tool";
  readonly id: string;
  readonly input?: JsonSchema;
  readonly output?: JsonSchema;
  readonly config?: JsonSchema;
  run(input: Json, call: ToolCall): Awaitable<unknown>;
}
export interface HookExport {
  readonly kind: "hook";
  readonly id: string;
  readonly on: readonly SemanticEventType[];
  readonly config?: JsonSchema;
  handle(event: HookEvent, call: HookCall): Awaitable<void>;
}
export interface CompactorExport {
  readonly kind: "compactor";
  readonly id: string;
  readonly config?: JsonSchema;
  compact(request: CompactRequest, call: Call): Awaitable<CompactAnswer>;
}
export interface HarnessExport {
  readonly kind: "harness";
  readonly id: string;
  readonly config?: JsonSchema;
  run(request: HarnessRequest, call: HarnessCall): Awaitable<HarnessAnswer | string>;
}
export type ExportDefinition = ToolExport | HookExport | CompactorExport | HarnessExport;

export interface Plugin {
  readonly package_id: string;
  readonly version: string;
  readonly exports: readonly ExportDefinition[];
}

/** `package_id`, `version` and the exports must match vai-plugin.toml; `checkManifest` compares them. */
export function definePlugin(plugin: Plugin): Plugin {
  const ids = new Set<string>();
  for (const { id } of plugin.exports) {
    if (ids.has(id)) {
      throw new BackplaneError("package.invalid", `Two exports are called ${id}; give each its own id.`);
    }
    ids.add(id);
  }
  return plugin;
}

interface ToolDefinition<Input, Output, Config> {
  id: string;
  /** Returns a string or any JSON value, or `{content, structured_output}` to set the text separately. */
  run(input: Input, call: ToolCall<Config>): Awaitable<Output | ToolAnswer<Output>>;
}

/** Infers types from the schema literals: `tool({ id, input: { type: "object", … }, run(input) {…} })`. */
export function tool<
  const I extends JsonSchema,
  const O extends JsonSchema = { readonly description?: never },
  const C extends JsonSchema = { readonly description?: never },
>(
  definition: ToolDefinition<FromSchema<I>, OutputOf<O>, ConfigOf<C>> & { input: I; output?: O; config?: C },
): ToolExport;
/**
 * Uses types given by the author: `tool<Input, Output>({ id, run(input) {…} })`. This signature accepts no
 * schemas; otherwise a function that breaks its schema would fall through to this signature and compile.
 */
export function tool<Input = Json, Output = unknown, Config = JsonObject>(
  definition: ToolDefinition<Input, Output, Config> & { input?: never; output?: never; config?: never },
): ToolExport;
export function tool(definition: Omit<ToolExport, "kind">): ToolExport {
  return { ...definition, kind: "tool" };
}

/**
 * A handler of semantic events. After a crash, a timeout or a retryable failure the gateway calls it again with the
 * same delivery_id, so the handler must be idempotent. A thrown error or `fail` ends the delivery:
 * the gateway does not call the handler again for it.
 */
export function hook<
  const Type extends SemanticEventType,
  const C extends JsonSchema = { readonly description?: never },
>(definition: {
  id: string;
  on: readonly Type[];
  config?: C;
  handle(event: HookEvent<Type>, call: HookCall<ConfigOf<C>>): Awaitable<void>;
}): HookExport {
  return { ...definition, kind: "hook" } as unknown as HookExport;
}

/** Creates the seed of a shorter chain. A compactor never changes the chain that it reads. */
export function compactor<const C extends JsonSchema = { readonly description?: never }>(definition: {
  id: string;
  config?: C;
  compact(request: CompactRequest, call: Call<ConfigOf<C>>): Awaitable<CompactAnswer>;
}): CompactorExport {
  return { ...definition, kind: "compactor" } as unknown as CompactorExport;
}

/** A program that drives sessions and runs through `call.gateway`. */
export function harness<const C extends JsonSchema = { readonly description?: never }>(definition: {
  id: string;
  config?: C;
  run(request: HarnessRequest, call: HarnessCall<ConfigOf<C>>): Awaitable<HarnessAnswer | string>;
}): HarnessExport {
  return { ...definition, kind: "harness" } as unknown as HarnessExport;
}

/** Without a schema every value is accepted: the default above has no keyword that restricts the value. */
type NoSchema = { readonly description?: never };
type OutputOf<S> = NoSchema extends S ? unknown : FromSchema<S>;
type ConfigOf<S> = NoSchema extends S ? JsonObject : FromSchema<S>;
