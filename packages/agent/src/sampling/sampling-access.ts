/**
 * Lets MCP servers use the gateway's own model (mcp.server). When the calling client does not support
 * sampling requests, the org's provider may answer for a binding whose policy allows it. The default is to
 * refuse. Each request is an invocation of the core tool `model_sampling` in the caller's name and context,
 * so that policy, approval and audit apply as for any call. The binding limits the tokens per request and the
 * requests per hour; the store counts requests for all nodes.
 */

import { BackplaneError, codeOf, type Json, type JsonObject } from "@backplane/contract";
import {
  coreBindingId,
  type Door,
  invoke,
  type LiveCall,
  SAMPLING_TOOL,
  type SamplingAccess,
  type SamplingCaller,
  stopCall,
} from "@backplane/door";
import type { RegisteredTool } from "@backplane/ports";
import { parseSamplingRequest, type SamplingRequest } from "./sampling-request.ts";
import { createSamplingTool, readSamplingAnswer, type SamplingToolOptions } from "./sampling-tool.ts";

const HOUR_MS = 3_600_000;

export function createSampling(options: Omit<SamplingToolOptions, "in_flight">): {
  access: SamplingAccess;
  tool: RegisteredTool;
} {
  /** Requests by id. The tool answers only these. */
  const in_flight = new Map<string, SamplingRequest>();

  async function sample(
    door: Door,
    live: LiveCall,
    { caller, context, bound }: SamplingCaller,
    params: JsonObject,
  ): Promise<Json> {
    const { clock, ids, store } = door.deps;
    const { binding_id, policy, scope } = bound.binding;
    const { max_tokens, per_hour } = policy.sampling!;
    const request = parseSamplingRequest(params, max_tokens);
    if (!(await store.sampling.countUse(scope.org_id, binding_id, per_hour, HOUR_MS, clock.now())))
      throw new BackplaneError(
        "request.overloaded",
        `${bound.package.package_id} has used its quota of ${per_hour} model requests per hour.`,
      );
    const request_id = ids.next("request");
    in_flight.set(request_id, request);
    try {
      const { system, messages } = request;
      const input = {
        request_id,
        for_binding: binding_id,
        for_invocation: live.row.id,
        system,
        messages: messages as unknown as Json,
        max_tokens: request.max_tokens,
      };
      const { session_id } = live.row;
      const body = {
        binding_id: coreBindingId(SAMPLING_TOOL),
        input,
        ...(session_id === null ? {} : { session_id }),
      };
      const ticket = await invoke(door, { caller, context, body });
      // The model call is stopped when the call that requested it has ended.
      const unsubscribe = live.onSettled(() => {
        const model_call = door.live.get(ticket.id);
        if (model_call !== undefined) stopCall(door, model_call, "user");
      });
      const { error, tool_result } = await ticket.settled;
      unsubscribe();
      if (error !== null)
        throw new BackplaneError(codeOf(error) ?? "internal", `The model request failed: ${error.message}`);
      const { text, model, output_tokens } = readSamplingAnswer(tool_result?.structured_output);
      return {
        role: "assistant",
        content: { type: "text", text },
        model,
        stopReason: output_tokens >= request.max_tokens ? "maxTokens" : "endTurn",
      };
    } finally {
      in_flight.delete(request_id);
    }
  }

  const access: SamplingAccess = (door, live, sampling_caller) =>
    sampling_caller.bound.binding.policy.sampling === undefined
      ? null
      : (params) => sample(door, live, sampling_caller, params);
  return { access, tool: createSamplingTool({ ...options, in_flight }) };
}
