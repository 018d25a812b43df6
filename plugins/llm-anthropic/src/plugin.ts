/**
 * Claude through Anthropic's official SDK alone (llm.sdk-only): Messages with tool use, prompt caching and thinking.
 */
import { llmProviderPlugin, vendorHealth } from "@backplane/sdk/kernel";
import { classifyAnthropicError } from "./classify.ts";
import { lazyAnthropicClient, toAnthropicAccess } from "./client.ts";
import { configSchema, readConfig } from "./config.ts";
import { passMessagesRequest } from "./native.ts";
import { streamMessage } from "./stream-message.ts";

export const plugin = llmProviderPlugin({
  name: "llm-anthropic",
  version: "0.1.0",
  configSchema,
  protocols: ["messages"],
  create(instance) {
    const config = readConfig(instance);
    const connect = lazyAnthropicClient(instance.id, config);
    return {
      generate: (request) =>
        request.native?.protocol === "messages"
          ? passMessagesRequest(connect, request, request.native)
          : streamMessage(connect, config, request),
    };
  },
  classify: classifyAnthropicError,
  healthCheck: (instance) => vendorHealth(toAnthropicAccess(instance.id, readConfig(instance))),
});
