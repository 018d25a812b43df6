/**
 * Merges a call's parameters over the instance's defaults. Neither can override the fields that define
 * the request itself.
 */
import type { GenerateRequest, JsonObject } from "@backplane/sdk/kernel";
import type { OpenAiConfig } from "./config.ts";

const RESERVED_FIELDS = new Set([
  "model",
  "messages",
  "input",
  "instructions",
  "tools",
  "stream",
  "stream_options",
  "store",
  "n",
]);

export function mergeParams(
  { temperature, max_tokens }: OpenAiConfig,
  { params, options = {} }: Pick<GenerateRequest, "params" | "options">,
): JsonObject {
  return {
    ...(temperature === null ? {} : { temperature }),
    ...(max_tokens === null ? {} : { max_tokens }),
    ...(options.temperature === undefined ? {} : { temperature: options.temperature }),
    ...(options.max_tokens === undefined ? {} : { max_tokens: options.max_tokens }),
    ...Object.fromEntries(Object.entries(params).filter(([key]) => !RESERVED_FIELDS.has(key))),
  };
}

/**
 * Models that do not reason refuse an effort, and clients of other protocols request one by default. The client's
 * effort is therefore used only if the instance is configured with an effort.
 */
export function chooseEffort(
  { thinking_effort }: OpenAiConfig,
  { options }: Pick<GenerateRequest, "options">,
): string | null {
  return thinking_effort === null ? null : (options?.reasoning_effort ?? thinking_effort);
}
