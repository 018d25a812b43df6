/**
 * OpenAI, and every server with a compatible API (`base_url`), through OpenAI's official SDK alone (llm.sdk-only).
 * Chat completions are the default, because compatible servers support them; `api: "responses"` selects the newer API.
 */
import { llmProviderPlugin, vendorHealth } from "@backplane/sdk/kernel";
import { streamChat } from "./chat.ts";
import { classifyOpenAiError, isWorthRetrying } from "./classify.ts";
import { lazyOpenAiClient, toOpenAiAccess } from "./client.ts";
import { configSchema, readConfig } from "./config.ts";
import { embedTexts } from "./embed.ts";
import { acceptsNative, passOpenAiRequest } from "./native.ts";
import { streamResponse } from "./responses.ts";

export const plugin = llmProviderPlugin({
  name: "llm-openai",
  version: "0.1.0",
  configSchema,
  protocols: ["chat", "responses"],
  create(instance) {
    const config = readConfig(instance);
    const connect = lazyOpenAiClient(instance.id, config);
    const stream = config.api === "responses" ? streamResponse : streamChat;
    return {
      generate: (request) =>
        request.native !== undefined && acceptsNative(config, request.native)
          ? passOpenAiRequest(connect, request, request.native)
          : stream(connect, config, request),
      embed: (request) => embedTexts(connect, request),
      onRetryableError: isWorthRetrying,
    };
  },
  classify: classifyOpenAiError,
  healthCheck: (instance) => vendorHealth(toOpenAiAccess(instance.id, readConfig(instance))),
});
