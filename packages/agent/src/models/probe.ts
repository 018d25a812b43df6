/** Tests a provider instance. */

import { BackplaneError, toBackplaneError } from "@backplane/contract";
import type { AgentProviders, Clock } from "@backplane/ports";
import { createModelBridgeId } from "@backplane/session";
import type { ActiveModels } from "./active-models.ts";
import type { ModelCalls } from "./call-model.ts";

const PROBE_MS = 5_000;

/** Returns a function that sends one small request to an instance, so that a user can test a new API key. */
export function createProbe(
  models: ModelCalls,
  active_models: ActiveModels,
  clock: Clock,
): AgentProviders["test"] {
  return async (caller, id) => {
    const chosen = await active_models.choose(caller.scope.org_id, id);
    if (chosen === null) throw new BackplaneError("provider.not_found");
    const began = clock.monotonic();
    const measureLatency = () => Math.round(clock.monotonic() - began);
    try {
      await models.call(
        {
          provider: id,
          model: chosen.model,
          messages: [{ role: "user", content: "Answer with one word: ready?" }],
          tools: [],
          params: { max_tokens: 16 },
        },
        {
          to: { session_id: createModelBridgeId("web-api-test"), scope: caller.scope },
          signal: new AbortController().signal,
          timeout_ms: PROBE_MS,
          retries: 0,
        },
      );
      return { ok: true, latency_ms: measureLatency() };
    } catch (error) {
      const { message, details } = toBackplaneError(error);
      return {
        ok: false,
        latency_ms: measureLatency(),
        error: details?.kind === "timeout" ? "timeout" : message,
      };
    }
  };
}
