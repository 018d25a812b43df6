/**
 * OpenAI, and every server that speaks its API (`base_url`), through the official SDK alone (llm.sdk-only). Chat
 * completions by default, because that is what compatible servers have; `api: "responses"` for the newer one.
 */
import { type InstanceHealth, llmProviderPlugin, type ProviderInstance } from "@backplane/sdk/kernel";
import { streamChat } from "./chat.ts";
import { classify, worthRetrying } from "./classify.ts";
import { configSchema, isVendor, readConfig } from "./config.ts";
import { lazyClient } from "./client.ts";
import { streamResponse } from "./responses.ts";

export const plugin = llmProviderPlugin({
  name: "llm-openai",
  version: "0.1.0",
  configSchema,
  create(instance) {
    const config = readConfig(instance);
    const client = lazyClient(instance.id, config);
    const stream = config.api === "responses" ? streamResponse : streamChat;
    return {
      generate: (request) => stream(client, config, request),
      onRetryableError: worthRetrying,
    };
  },
  classify,
  healthCheck,
});

function healthCheck(instance: ProviderInstance): InstanceHealth {
  const { api_key, base_url } = readConfig(instance);
  const key = (field: string) => `providers.${instance.id}.${field}`;
  if (!URL.canParse(base_url)) return { status: "degraded", message: `${key("base_url")} is no address` };
  if (api_key === "" && isVendor(base_url)) {
    return { status: "degraded", message: `no api_key: set ${key("api_key")}` };
  }
  return { status: "ok" };
}
