/**
 * The client of the OpenAI SDK, loaded and created at the first call. Every value that the OpenAI SDK would otherwise
 * read from the environment is set here: a key from the gateway's environment must not be sent to the `base_url` of
 * any instance.
 */
import { createVendorTransport, lazyVendorClient, type VendorAccess } from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { OPENAI_HOST, type OpenAiConfig } from "./config.ts";

export type ConnectOpenAi = () => Promise<OpenAI>;

export function lazyOpenAiClient(id: string, config: OpenAiConfig): ConnectOpenAi {
  return lazyVendorClient(toOpenAiAccess(id, config), () => connect(config));
}

export function toOpenAiAccess(id: string, { api_key, base_url }: OpenAiConfig): VendorAccess {
  return { id, api_key, base_url, vendor_host: OPENAI_HOST };
}

async function connect(config: OpenAiConfig): Promise<OpenAI> {
  const { OpenAI } = await import("openai");
  return new OpenAI({
    // The OpenAI SDK requires a key even if a local server does not.
    apiKey: config.api_key === "" ? "none" : config.api_key,
    adminAPIKey: null,
    baseURL: config.base_url,
    organization: config.organization,
    project: null,
    webhookSecret: null,
    timeout: config.timeout_s * 1_000,
    ...createVendorTransport(),
    // Retries are the kernel's responsibility (llm.retry).
    maxRetries: 0,
    logLevel: "off",
  });
}
