/**
 * The API with provider instances of both vendors behind it, listening on a real port, and the vendors' own clients.
 */
import { Anthropic } from "@anthropic-ai/sdk";
import type { JsonObject, KeyCreate } from "@backplane/contract";
import { OpenAI } from "openai";
import { loadBundledPlugins } from "./bundled-plugins.ts";
import { ADMIN } from "./callers.ts";
import { ADMIN_TOKEN, startApi, type TestApi } from "./start-api.ts";
import { startVendorServer, type VendorServer } from "./vendor-server.ts";

export interface LlmApi extends TestApi {
  vendor: VendorServer;
  url: string;
  openai(token?: string): OpenAI;
  anthropic(token?: string): Anthropic;
  createKey(body?: Partial<KeyCreate>): Promise<string>;
}

/** Creates the instances `chat`, `resp` (responses), `claude` and `echo`, each with one model. */
export async function startLlmApi(config: JsonObject = {}): Promise<LlmApi> {
  const vendor = await startVendorServer();
  const plugins = await loadBundledPlugins("llm-openai", "llm-anthropic", "llm-echo");
  const api = await startApi({ plugins });
  const url = await api.api.listen({ host: "127.0.0.1", port: 0 });
  const { providers } = api.kernel;
  const openai = { base_url: `${vendor.url}/v1`, api_key: "sk-vendor", ...config };
  await providers.create(ADMIN, { id: "chat", plugin: "llm-openai", config: { ...openai, model: "gpt-up" } });
  await providers.create(ADMIN, {
    id: "resp",
    plugin: "llm-openai",
    config: { ...openai, model: "gpt-resp", api: "responses", thinking_effort: "high" },
  });
  await providers.create(ADMIN, {
    id: "claude",
    plugin: "llm-anthropic",
    config: { base_url: vendor.url, api_key: "sk-ant", model: "claude-up", ...config },
  });
  await providers.create(ADMIN, { id: "echo", plugin: "llm-echo", config: { model: "echo-1" } });
  return {
    ...api,
    vendor,
    url,
    openai: (apiKey = ADMIN_TOKEN) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }),
    anthropic: (apiKey = ADMIN_TOKEN) =>
      new Anthropic({ apiKey, authToken: null, baseURL: url, maxRetries: 0 }),
    async createKey(body = {}) {
      const created = await api.kernel.keys.create(ADMIN, {
        name: "client",
        role: "user",
        scopes: ["llm:invoke"],
        ...body,
      });
      return created.token;
    },
    async close() {
      await api.close();
      await vendor.close();
    },
  };
}
