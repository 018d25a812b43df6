/**
 * Creates a kernel tool from one schema literal: the compiler types `run` from it, and the kernel validates
 * arguments with it.
 */
import {
  BackplaneError,
  type JsonObject,
  type KernelTool,
  type KernelToolCall,
  type KernelToolSpec,
  type ToolReturn,
} from "@backplane/contract";
import type { FromSchema, JsonSchema } from "../json-schema.ts";
import { toBrief, toolOk } from "./tool-return.ts";

type Awaitable<T> = T | Promise<T>;

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

export interface KernelToolDefinition<S extends JsonSchema> extends Omit<KernelToolSpec, "parameters"> {
  parameters: S & { readonly type: "object" };
  /** A plain string is a successful result. */
  run(args: FromSchema<S>, call: KernelToolCall): Awaitable<ToolReturn | string>;
  approvalBrief?(args: FromSchema<S>): Awaitable<string>;
  /** False denies the call before anybody is asked; true leaves the decision to the policy. */
  preApprove?(args: FromSchema<S>): Awaitable<boolean>;
}

export function kernelTool<const S extends JsonSchema>(definition: KernelToolDefinition<S>): KernelTool {
  const { name } = definition;
  if (!NAME.test(name)) {
    throw new BackplaneError(
      "plugin.invalid",
      `The tool name ${JSON.stringify(name)} must consist of 1 to 64 characters from A-Z, a-z, 0-9, _ and -.`,
    );
  }
  if (definition.parameters.type !== "object") {
    throw new BackplaneError("plugin.invalid", `The parameters of ${name} must be a schema of type object.`);
  }
  const tool: KernelTool = {
    ...(definition as unknown as KernelToolSpec),
    async run(args, call) {
      const result = await definition.run(args as FromSchema<S>, call);
      return typeof result === "string" ? toolOk(result) : result;
    },
  };
  if (definition.approvalBrief !== undefined) {
    tool.approvalBrief = async (args) => toBrief(await definition.approvalBrief!(args as FromSchema<S>));
  }
  if (definition.preApprove !== undefined) {
    tool.preApprove = (args) => definition.preApprove!(args as FromSchema<S>);
  }
  return tool;
}

/** The `function` of an OpenAI tool; Anthropic uses the same values under other keys. */
export function openaiFunction(spec: KernelToolSpec): {
  name: string;
  description: string;
  parameters: JsonObject;
} {
  return { name: spec.name, description: spec.description, parameters: spec.parameters };
}
