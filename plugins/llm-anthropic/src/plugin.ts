/** Claude through the official SDK alone (llm.sdk-only): Messages with tool use, prompt caching and thinking. */
import { type InstanceHealth, llmProviderPlugin, type ProviderInstance } from "@backplane/sdk/kernel";
import { classify } from "./classify.ts";
import { lazyClient } from "./client.ts";
import { configSchema, isVendor, readConfig } from "./config.ts";
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
