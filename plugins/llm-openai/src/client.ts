/**
 * The SDK's client, loaded and made at the first call. Everything that the SDK would else take from the environment
 * is set here: a key of the gateway's own environment must not travel to some instance's `base_url`.
 */
import { lazyVendorClient, VENDOR_TRANSPORT, type VendorAccess } from "@backplane/sdk/kernel";
import type { OpenAI } from "openai";
import { type OpenAiConfig, VENDOR_HOST } from "./config.ts";

export type LazyClient = () => Promise<OpenAI>;

export function lazyClient(id: string, config: OpenAiConfig): LazyClient {
  return lazyVendorClient(accessOf(id, config), () => connect(config));
}

export function accessOf(id: string, { api_key, base_url }: OpenAiConfig): VendorAccess {
  return { id, api_key, base_url, vendor_host: VENDOR_HOST };
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
    ...VENDOR_TRANSPORT,
    // Trying again is the kernel's (llm.retry).
    maxRetries: 0,
    logLevel: "off",
  });
}
