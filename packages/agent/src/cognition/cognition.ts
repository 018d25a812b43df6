/**
 * The host's models for trusted instrument plugins. A request is one prompt to the org's active provider instance, or
 * one embedding. Each binding has its own quota. The audit log records every request, with its token usage if a model
 * answered it, but never with its text.
 */

import { BackplaneError, COGNITION_LIMITS, type JsonObject, toBackplaneError } from "@backplane/contract";
import type { Clock, Cognition, CognitionUser, KernelDeps } from "@backplane/ports";
import { createModelBridgeId } from "@backplane/session";
import type { ActiveModels } from "../models/active-models.ts";
import type { ModelCalls } from "../models/call-model.ts";
import type { EmbedTexts } from "../models/embeddings.ts";
import { embedText } from "./embed-text.ts";

interface CognitionOptions {
  deps: Pick<KernelDeps, "store" | "clock" | "ids">;
  models: ModelCalls;
  active_models: ActiveModels;
  embedTexts: EmbedTexts;
}

export function createCognition({ active_models, deps, embedTexts, models }: CognitionOptions): Cognition {
  const { clock, ids, store } = deps;
  const quota = new Quota(clock, COGNITION_LIMITS.per_minute, 60_000);

  async function record(user: CognitionUser, action: string, details: JsonObject): Promise<void> {
    await store.audit.append({
      id: ids.next("audit"),
      at: clock.now(),
      scope: { org_id: user.org_id, project_id: user.project_id },
      actor: `plugin:${user.plugin_id}`,
      action,
      subject: user.binding_id,
      details,
    });
  }

  async function runRecorded<T>(
    user: CognitionUser,
    action: string,
    work: (details: JsonObject) => Promise<T>,
  ): Promise<T> {
    const details: JsonObject = {};
    let result: T;
    try {
      if (!quota.take(user.binding_id)) {
        throw new BackplaneError(
          "request.overloaded",
          `${user.plugin_id} has used its quota of ${COGNITION_LIMITS.per_minute} requests per minute.`,
        );
      }
      result = await work(details);
    } catch (error) {
      const { code } = toBackplaneError(error);
      await record(user, action, { ...details, error: code });
      throw error;
    }
    await record(user, action, details);
    return result;
  }

  return {
    think: (user, prompt, max_tokens) =>
      runRecorded(user, "cognition.request", async (details) => {
        checkText("prompt", prompt);
        if (!Number.isInteger(max_tokens) || max_tokens < 1) {
          throw new BackplaneError("request.invalid", "maxTokens must be a whole number of at least 1.");
        }
        const chosen = await active_models.choose(user.org_id);
        if (chosen === null) {
          throw new BackplaneError("llm.failed", "No provider instance is active.", {
            fix: "Create one with `backplane provider add`, then activate it with `backplane provider use ID`.",
          });
        }
        const { model, provider } = chosen;
        Object.assign(details, { provider, model });
        const limit = Math.min(max_tokens, COGNITION_LIMITS.max_tokens);
        const answer = await models.call(
          {
            provider,
            model,
            messages: [{ role: "user", content: prompt }],
            tools: [],
            params: { max_tokens: limit },
          },
          {
            to: {
              session_id: createModelBridgeId("cognition"),
              scope: { org_id: user.org_id, project_id: user.project_id },
            },
            signal: new AbortController().signal,
            timeout_ms: COGNITION_LIMITS.timeout_ms,
          },
        );
        Object.assign(details, { usage: { ...answer.usage } });
        return answer.text;
      }),

    embed: (user, text) =>
      runRecorded(user, "embedding.request", async (details) => {
        checkText("text", text);
        const scope = { org_id: user.org_id, project_id: user.project_id };
        const embedded = await embedTexts(scope, [text]);
        if (embedded !== null) {
          const { provider, model, usage, vectors } = embedded;
          Object.assign(details, { provider, model, size: vectors[0]!.length, usage: { ...usage } });
          return vectors[0]!;
        }
        const embedding = embedText(text);
        Object.assign(details, { model: "backplane-hash", size: embedding.length });
        return embedding;
      }),
  };
}

function checkText(name: string, value: string): void {
  const { prompt_chars } = COGNITION_LIMITS;
  if (typeof value === "string" && value !== "" && value.length <= prompt_chars) return;
  throw new BackplaneError("request.invalid", `${name} must be a string of 1 to ${prompt_chars} characters.`);
}

/**
 * Limits the requests of each key within a sliding window. Each `take` also removes the keys that have had no request
 * within the window.
 */
export class Quota {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #count: number;
  readonly #window_ms: number;
  readonly #requests = new Map<string, number[]>();

  constructor(clock: Pick<Clock, "monotonic">, count: number, window_ms: number) {
    this.#clock = clock;
    this.#count = count;
    this.#window_ms = window_ms;
  }

  /** Counts a request of the key and returns true, or returns false if the key has used its quota. */
  take(key: string): boolean {
    const now = this.#clock.monotonic();
    const since = now - this.#window_ms;
    for (const [key, times] of this.#requests) {
      // Keys are in the order of their last use, so the first recent one ends the search.
      if ((times.at(-1) as number) > since) break;
      this.#requests.delete(key);
    }
    const times = (this.#requests.get(key) ?? []).filter((at) => at > since);
    if (times.length >= this.#count) return false;
    this.#requests.delete(key);
    this.#requests.set(key, [...times, now]);
    return true;
  }
}
