/**
 * The SDK's client, loaded and made at the first call. Key and address are always set here: left out, the SDK would
 * look for credentials in the gateway's environment and home, and send them to some instance's `base_url`.
 */
import type { Anthropic } from "@anthropic-ai/sdk";
import { LlmCallError } from "@backplane/sdk/kernel";
import { type AnthropicConfig, isVendor } from "./config.ts";

export type LazyClient = () => Promise<Anthropic>;

export function lazyClient(id: string, config: AnthropicConfig): LazyClient {
  let client: Promise<Anthropic> | undefined;
  return () => {
    if (config.api_key === "" && isVendor(config.base_url)) {
      const message = `The instance ${id} has no API key: set providers.${id}.api_key.`;
      return Promise.reject(new LlmCallError({ kind: "other", message }));
    }
    client ??= connect(config);
    return client;
  };
}

async function connect(config: AnthropicConfig): Promise<Anthropic> {
  const { Anthropic } = await import("@anthropic-ai/sdk");
  return new Anthropic({
    apiKey: config.api_key === "" ? "none" : config.api_key,
    webhookKey: null,
    baseURL: config.base_url,
    timeout: config.timeout_s * 1_000,
    // Trying again is the kernel's (llm.retry).
    maxRetries: 0,
    logLevel: "off",
    openTelemetry: false,
  });
}
