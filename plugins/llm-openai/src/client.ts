/**
 * The SDK's client, loaded and made at the first call. Everything that the SDK would else take from the environment
 * is set here: a key of the gateway's own environment must not travel to some instance's `base_url`.
 */
import { LlmCallError } from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { isVendor, type OpenAiConfig } from "./config.ts";

export type LazyClient = () => Promise<OpenAI>;

export function lazyClient(id: string, config: OpenAiConfig): LazyClient {
  let client: Promise<OpenAI> | undefined;
  return () => {
    if (config.api_key === "" && isVendor(config.base_url)) {
      const message = `The instance ${id} has no API key: set providers.${id}.api_key.`;
      return Promise.reject(new LlmCallError({ kind: "other", message }));
    }
    client ??= connect(config);
    return client;
  };
}

async function connect(config: OpenAiConfig): Promise<OpenAI> {
  const { OpenAI } = await import("openai");
  return new OpenAI({
    // The SDK insists on a key where a local server does not.
    apiKey: config.api_key === "" ? "none" : config.api_key,
    adminAPIKey: null,
    baseURL: config.base_url,
    organization: config.organization,
    project: null,
    webhookSecret: null,
    timeout: config.timeout_s * 1_000,
    // Trying again is the kernel's (llm.retry).
    maxRetries: 0,
    logLevel: "off",
  });
}
