import { afterEach, beforeEach, expect } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import { json, Vendor } from "../../../packages/sdk/test/kernel/llm-vendor.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";

let vendor: Vendor;
let bus: LlmBus;

beforeEach(async () => {
  vendor = new Vendor();
  const base_url = `${await vendor.start()}/v1`;
  const config = { api_key: "sk-test-key", base_url, model: "gpt-test", embedding_model: "embed-test" };
  bus = new LlmBus(plugin, [createInstance("llm-openai", config)]);
});
afterEach(() => vendor.stop());

const request = { model: "embed-test", messages: [], input: ["one", "two"] };

verifies("llm.provider", "embeds several texts in one request and returns them in their order", async () => {
  vendor.answer = json(200, {
    object: "list",
    model: "embed-test",
    data: [
      { object: "embedding", index: 1, embedding: [0, 1] },
      { object: "embedding", index: 0, embedding: [1, 0.5] },
    ],
    usage: { prompt_tokens: 4, total_tokens: 4 },
  });
  const { kind, payload } = await bus.call(request);
  expect(kind).toBe("llm.call.response");
  expect(payload).toMatchObject({
    embeddings: [
      [1, 0.5],
      [0, 1],
    ],
    usage: { input_other: 4, total: 4 },
  });
  expect(vendor.requests).toHaveLength(1);
  const [sent] = vendor.requests;
  expect(sent).toMatchObject({
    path: "/v1/embeddings",
    headers: { authorization: "Bearer sk-test-key" },
    body: { model: "embed-test", input: ["one", "two"], encoding_format: "float" },
  });
});

verifies("llm.provider", "classifies a failed embedding like a failed answer", async () => {
  vendor.answer = json(429, { error: { message: "slow down sk-test-key" } });
  const { kind, payload } = await bus.call(request);
  expect(kind).toBe("llm.call.error");
  expect(payload).toMatchObject({ kind: "status", status_code: 429, retryable: true });
  expect(JSON.stringify(payload)).not.toContain("sk-test-key");
});
