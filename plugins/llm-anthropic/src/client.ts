/**
 * The client of the Anthropic SDK, loaded and created at the first call. Key and base URL are always set here:
 * otherwise the Anthropic SDK would look for credentials in the gateway's environment and home, and send them to the
 * `base_url` of any instance.
 */
import type { Anthropic } from "@anthropic-ai/sdk";
import { createVendorTransport, lazyVendorClient, type VendorAccess } from "@backplane/sdk/kernel";
import { ANTHROPIC_HOST, type AnthropicConfig } from "./config.ts";

export type ConnectAnthropic = () => Promise<Anthropic>;

export function lazyAnthropicClient(id: string, config: AnthropicConfig): ConnectAnthropic {
  return lazyVendorClient(toAnthropicAccess(id, config), () => connect(config));
}

export function toAnthropicAccess(id: string, { api_key, base_url }: AnthropicConfig): VendorAccess {
  return { id, api_key, base_url, vendor_host: ANTHROPIC_HOST };
}

async function connect(config: AnthropicConfig): Promise<Anthropic> {
  const { Anthropic } = await import("@anthropic-ai/sdk");
  return new Anthropic({
    apiKey: config.api_key === "" ? "none" : config.api_key,
    webhookKey: null,
    baseURL: config.base_url,
    timeout: config.timeout_s * 1_000,
    ...createVendorTransport(),
    // Retries are the kernel's responsibility (llm.retry).
    maxRetries: 0,
    logLevel: "off",
    openTelemetry: false,
  });
}
