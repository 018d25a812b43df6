/**
 * `model_sampling` calls the org's model on behalf of an MCP server. It is a core tool, so that the door
 * records each request, assesses its risk and asks for approval where the tolerance requires it. The tool is
 * not offered to models and answers only requests that the gateway itself received from a server.
 */

import { BackplaneError, COGNITION_LIMITS, type JsonObject, type ToolReturn } from "@backplane/contract";
import { createCoreTool, noBrief, SAMPLING_TOOL } from "@backplane/door";
import type { KernelDeps, RegisteredTool } from "@backplane/ports";
import { createModelBridgeId } from "@backplane/session";
import type { ActiveModels } from "../models/active-models.ts";
import type { ModelCalls } from "../models/call-model.ts";
import type { SamplingRequest } from "./sampling-request.ts";

export interface SamplingToolOptions {
  deps: Pick<KernelDeps, "version">;
  models: ModelCalls;
  active_models: ActiveModels;
  /** Requests in flight by id. The tool refuses every other id. */
  in_flight: ReadonlyMap<string, SamplingRequest>;
}

export function createSamplingTool({
  deps,
  models,
  active_models,
  in_flight,
}: SamplingToolOptions): RegisteredTool {
  return createCoreTool(deps.version ?? "0.0.0", {
    spec: {
      name: SAMPLING_TOOL,
      description:
        "Sends a sampling request from an MCP server to the organization's model, while the server handles a call.",
      parameters: {
        type: "object",
        properties: {
          request_id: { type: "string" },
          for_binding: { type: "string" },
          for_invocation: { type: "string" },
          system: { type: ["string", "null"] },
          messages: { type: "array" },
          max_tokens: { type: "integer", minimum: 1 },
        },
        required: ["request_id", "for_binding", "for_invocation", "messages", "max_tokens"],
      },
      risk: "medium",
      timeout_ms: COGNITION_LIMITS.timeout_ms,
    },
    brief: noBrief,
    run: async (args, { scope, signal }): Promise<ToolReturn> => {
      const request = in_flight.get(args.request_id as string);
      if (request === undefined) return toRefusal("model_sampling answers only requests from MCP servers");
      const chosen = await active_models.choose(scope.org_id);
      if (chosen === null)
        return toRefusal(
          "no provider instance is active; create one with `backplane provider add`, then activate it with `backplane provider use ID`",
        );
      const { provider, model } = chosen;
      const answer = await models.call(
        { provider, model, messages: messagesOf(request), tools: [], params: paramsOf(request) },
        {
          to: { session_id: createModelBridgeId("sampling"), scope },
          signal: signal as AbortSignal,
          timeout_ms: COGNITION_LIMITS.timeout_ms,
        },
      );
      const { text, usage } = answer;
      const data: JsonObject = { text, model, provider, usage: { ...usage } };
      return { ok: true, brief: `${usage.total} tokens`, display: { kind: "json", data } };
    },
  });
}

function messagesOf({ system, messages }: SamplingRequest): unknown[] {
  return [
    ...(system === null ? [] : [{ role: "system", content: system }]),
    ...messages.map(({ role, text }) => ({ role, content: text })),
  ];
}

function paramsOf({ max_tokens, temperature, stop }: SamplingRequest): JsonObject {
  return {
    max_tokens,
    ...(temperature === null ? {} : { temperature }),
    ...(stop.length === 0 ? {} : { stop }),
  };
}

function toRefusal(text: string): ToolReturn {
  return { ok: false, kind: "validation", brief: text, display: { kind: "text", text } };
}

/** Reads the tool's answer from its settled row. */
export function readSamplingAnswer(structured: unknown): {
  text: string;
  model: string;
  output_tokens: number;
} {
  const data = (structured as { display?: { data?: JsonObject } } | undefined)?.display?.data ?? {};
  const { text, model, usage } = data;
  if (typeof text !== "string") throw new BackplaneError("llm.failed", "The model returned no text.");
  const output_tokens = Number((usage as JsonObject | undefined)?.output ?? 0);
  return { text, model: typeof model === "string" ? model : "", output_tokens };
}
