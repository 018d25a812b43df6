/** Runs a provider plugin on a bus. The test supplies the generator that answers. */
import type { GenerateRequest, LlmPart, LlmProvider, ProviderInstance } from "@backplane/contract";
import { type LlmProviderOptions, llmProviderPlugin } from "../../src/kernel/index.ts";
import { createInstance, LlmBus } from "./llm-bus.ts";

type Generate = (request: GenerateRequest, instance: ProviderInstance) => AsyncIterable<LlmPart>;

export function createLlmBus(
  generate: Generate,
  options: Partial<LlmProviderOptions> & Partial<LlmProvider> = {},
) {
  const { onRetryableError, ...rest } = options;
  /** The id of the instance of each provider that the plugin created. */
  const created_ids: string[] = [];
  const plugin = llmProviderPlugin({
    name: "llm-test",
    version: "1.0.0",
    configSchema: { type: "object" },
    create(instance) {
      created_ids.push(instance.id);
      return {
        generate: (request) => generate(request, instance),
        ...(onRetryableError ? { onRetryableError } : {}),
      };
    },
    ...rest,
  });
  const bus = new LlmBus(plugin, [createInstance("llm-test")]);
  return { bus, plugin, created_ids };
}

export async function* parts(...list: LlmPart[]): AsyncGenerator<LlmPart, void, undefined> {
  yield* list;
}

/** Emits one part and then blocks until the request is aborted. */
export async function* stuck(request: GenerateRequest): AsyncGenerator<LlmPart, void, undefined> {
  yield { type: "content", text: "so far" };
  await new Promise<void>((resolve) => request.signal.addEventListener("abort", () => resolve()));
}

export async function* failing(error: unknown): AsyncGenerator<LlmPart, void, undefined> {
  yield* [];
  throw error;
}
