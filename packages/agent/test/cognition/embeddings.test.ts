/**
 * Embeddings for instrument plugins: computed by a provider instance with an embedding model, otherwise by hashing.
 */
import type { Embeddings, EmbedRequest, KernelPlugin } from "@backplane/contract";
import { llmProviderPlugin } from "@backplane/sdk/kernel";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../loop/test-session.ts";

const INSTRUMENT = {
  org_id: "org_local",
  project_id: "proj_default",
  binding_id: "bind_1",
  plugin_id: "greeter",
};

interface Vendor {
  plugin: KernelPlugin;
  requests: EmbedRequest[];
  respond(request: EmbedRequest): Promise<Embeddings>;
}

function vendorPlugin(): Vendor {
  const vendor: Vendor = {
    requests: [],
    respond: async ({ texts }) => ({ vectors: texts.map((text) => [text.length, 1, 0]) }),
    plugin: llmProviderPlugin({
      name: "llm-vectors",
      version: "1.0.0",
      configSchema: { type: "object", properties: { embedding_model: { type: "string" } } },
      create: () => ({
        async *generate() {},
        embed(request) {
          vendor.requests.push(request);
          return vendor.respond(request);
        },
      }),
    }),
  };
  return vendor;
}

async function createEmbeddingSession() {
  const vendor = vendorPlugin();
  const fixture = await createTestSession({ plugins: [vendor.plugin] });
  const addInstance = (embedding_model: string, id = "vectors-b") =>
    fixture.kernel.providers.create(admin, { id, plugin: "llm-vectors", config: { embedding_model } });
  const embed = (text: string) => fixture.kernel.cognition.embed(INSTRUMENT, text);
  return { fixture, vendor, addInstance, embed };
}

verifies("instr.context", "embeds with the embedding model of an instance, else by hashing", async () => {
  const { fixture, vendor, addInstance, embed } = await createEmbeddingSession();
  expect(await embed("tea")).toHaveLength(256);
  expect(vendor.requests).toEqual([]);

  await addInstance("embed-2");
  expect(await embed("tea")).toEqual([3, 1, 0]);
  expect(vendor.requests[0]).toMatchObject({ model: "embed-2", texts: ["tea"] });
  await addInstance("embed-1", "vectors-a");
  await embed("tea");
  expect(vendor.requests.at(-1)!.model).toBe("embed-1");
  await fixture.kernel.providers.setActive(admin, "vectors-b");
  await embed("tea");
  expect(vendor.requests.at(-1)!.model).toBe("embed-2");

  const rows = await fixture.kernel.audit.list(admin, {}, { limit: 50 });
  const recorded = rows.items.filter(({ action }) => action === "embedding.request");
  expect(recorded.map(({ details }) => details)).toEqual(
    expect.arrayContaining([
      { model: "backplane-hash", size: 256 },
      expect.objectContaining({ provider: "vectors-b", model: "embed-2", size: 3 }),
    ]),
  );
});

verifies(
  "instr.context",
  "fails instead of hashing if the embedding model fails or returns invalid vectors",
  async () => {
    const { vendor, addInstance, embed } = await createEmbeddingSession();
    await addInstance("embed-1");
    vendor.respond = () => Promise.reject(new Error("no such model"));
    await expect(embed("tea")).rejects.toMatchObject({ code: "llm.failed" });
    for (const vectors of [[], [[]], [[1], [2]], [[Number.NaN]], [["1" as unknown as number]]]) {
      vendor.respond = async () => ({ vectors });
      await expect(embed("tea"), JSON.stringify(vectors)).rejects.toMatchObject({ code: "llm.failed" });
    }
  },
);
