import { llmProviderPlugin } from "@backplane/sdk/kernel";
import { admin, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { createTestSession } from "../../../packages/agent/test/loop/test-session.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { createMemoryPlugin } from "../src/plugin.ts";

verifies(
  ["strategy.react", "memory.store"],
  "gives the model a note about what the user said in another session",
  async () => {
    const fixture = await createTestSession({ plugins: [createMemoryPlugin()] });
    const findEvents = (kind: string, session_id: string) =>
      fixture.events.filter((event) => event.kind === kind && event.session_id === session_id);
    expect((await fixture.say("My bicycle is red", "s1")).status).toBe("completed");
    await until(async () => {
      const reports = await fixture.kernel.plugins.health(admin, 3_000);
      return reports.find(({ name }) => name === "memory-sqlite")?.summary === "1 entry";
    });

    expect((await fixture.say("What color is my bicycle?", "s2")).status).toBe("completed");
    expect(findEvents("memory.result", "s1")[0]!.payload.hits).toEqual([]);
    expect(findEvents("memory.result", "s2")[0]!.payload.hits).toMatchObject([
      { text: expect.stringContaining("My bicycle is red") as string, meta: { session_id: "s1" } },
    ]);
    const [request] = findEvents("llm.call.request", "s2");
    expect(JSON.stringify(request!.payload.messages)).toContain("<memory_notes>");
    expect(JSON.stringify(request!.payload.messages)).toContain("My bicycle is red");
  },
);

verifies("memory.store", "finds a note with the embedding model of the org's provider", async () => {
  const provider = llmProviderPlugin({
    name: "llm-vectors",
    version: "1.0.0",
    configSchema: { type: "object", properties: { embedding_model: { type: "string" } } },
    create: () => ({
      async *generate() {},
      embed: async ({ texts }) => ({
        vectors: texts.map((text) => (/bicycle|cycling/.test(text) ? [1, 0] : [0, 1])),
      }),
    }),
  });
  const fixture = await createTestSession({ plugins: [createMemoryPlugin(), provider] });
  const config = { embedding_model: "m1" };
  await fixture.kernel.providers.create(admin, { id: "vectors", plugin: "llm-vectors", config });
  await fixture.say("My bicycle is red", "s1");
  const hits = async (session_id: string) => {
    await fixture.say("Who loves cycling?", session_id);
    const result_event = fixture.events.find(
      (event) => event.kind === "memory.result" && event.session_id === session_id,
    );
    return (result_event!.payload.hits as { text: string }[]).map(({ text }) => text.split("\n")[0]);
  };
  // The note is embedded in the background.
  let n = 0;
  await expect
    .poll(() => hits(`q${++n}`), { timeout: 10_000 })
    .toContainEqual(expect.stringContaining("My bicycle"));
});
