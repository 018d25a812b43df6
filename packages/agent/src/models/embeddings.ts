/**
 * Computes embeddings with the org's provider instance that has an embedding model. Without such an instance there are
 * no embeddings: the caller decides whether to use a fallback, because vectors of different models must never be
 * compared. A failed request is therefore an error and never falls back to another model.
 */
import { BackplaneError, COGNITION_LIMITS, type Json, type TokenUsage } from "@backplane/contract";
import type { Scope } from "@backplane/ports";
import { createModelBridgeId } from "@backplane/session";
import type { KernelService } from "../plugins/plugins-port.ts";
import type { ActiveModels } from "./active-models.ts";
import type { ModelCalls } from "./call-model.ts";

interface EmbeddedTexts {
  provider: string;
  model: string;
  /** One per text, all of the same size. */
  vectors: number[][];
  usage: TokenUsage;
}

/** Resolves to null if no provider instance of the org has an embedding model. */
export type EmbedTexts = (scope: Scope, texts: readonly string[]) => Promise<EmbeddedTexts | null>;

const MAX_SIZE = 16_384;
const MAX_TEXTS = 64;

export function createEmbedTexts(models: ModelCalls, active_models: ActiveModels): EmbedTexts {
  return async (scope, texts) => {
    const chosen = await active_models.chooseEmbeddingModel(scope.org_id);
    if (chosen === null) return null;
    const { embeddings, usage } = await models.call(
      { ...chosen, messages: [], tools: [], params: {}, input: [...texts] },
      {
        to: { session_id: createModelBridgeId("embedding"), scope },
        signal: new AbortController().signal,
        timeout_ms: COGNITION_LIMITS.timeout_ms,
      },
    );
    if (!areVectors(embeddings, texts.length))
      throw new BackplaneError(
        "llm.failed",
        `${chosen.provider}: ${chosen.model} returned no valid embeddings.`,
      );
    return { ...chosen, vectors: embeddings, usage };
  };
}

function areVectors(value: unknown[][] | undefined, count: number): value is number[][] {
  const size = value?.[0]?.length ?? 0;
  return (
    value?.length === count &&
    size > 0 &&
    size <= MAX_SIZE &&
    value.every((vector) => vector.length === size && vector.every((number) => Number.isFinite(number)))
  );
}

/**
 * `embedding.embed` for plugins. `space` identifies the model and the size: only vectors of the same space can be
 * compared.
 */
export function createEmbeddingServices(embed: EmbedTexts): [string, KernelService][] {
  return [
    [
      "embedding.embed",
      async ({ texts }, { caller, call, scope }) => {
        const request_scope = caller?.scope ?? call?.scope ?? scope;
        if (request_scope === undefined)
          throw new BackplaneError("request.invalid", "The request does not belong to an organization.");
        if (!areTexts(texts)) {
          const message = `texts must be a list of 1 to ${MAX_TEXTS} strings of 1 to ${COGNITION_LIMITS.prompt_chars} characters.`;
          throw new BackplaneError("request.invalid", message);
        }
        const embedded = await embed(request_scope, texts);
        if (embedded === null) return null;
        const { provider, model, vectors } = embedded;
        return { space: `${provider}/${model}/${vectors[0]!.length}`, vectors };
      },
    ],
  ];
}

function areTexts(texts: Json | undefined): texts is string[] {
  return (
    Array.isArray(texts) &&
    texts.length > 0 &&
    texts.length <= MAX_TEXTS &&
    texts.every(
      (text) => typeof text === "string" && text !== "" && text.length <= COGNITION_LIMITS.prompt_chars,
    )
  );
}
