/**
 * Claude through the official SDK alone (llm.sdk-only): Messages with tool use, prompt caching and thinking.
 */
import { llmProviderPlugin, vendorHealth } from "@backplane/sdk/kernel";
import { classify } from "./classify.ts";
import { accessOf, lazyClient } from "./client.ts";
import { configSchema, readConfig } from "./config.ts";
import { streamMessage } from "./stream-message.ts";

export const plugin = llmProviderPlugin({
  name: "llm-anthropic",
  version: "0.1.0",
  configSchema,
  create(instance) {
    const config = readConfig(instance);
    const client = lazyClient(instance.id, config);
    return { generate: (request) => streamMessage(client, config, request) };
  },
  classify,
  healthCheck: (instance) => vendorHealth(accessOf(instance.id, readConfig(instance))),
});
