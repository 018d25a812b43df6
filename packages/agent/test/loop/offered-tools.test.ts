/** The tools that a turn offers to the model: deferred tools, tools found by searching, and the token budget. */
import type { BusEvent, Json, KernelTool } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "./test-session.ts";

/** A tool of low risk, so that its calls need no approval. */
const makeTool = (name: string, more: Partial<KernelTool> = {}): KernelTool => ({
  name,
  description: `Does ${name}.`,
  parameters: { type: "object" },
  risk: "low",
  run: () => toolOk("done"),
  ...more,
});

const offeredTools = ({ events }: TestSession): string[][] =>
  events
    .filter(({ kind }) => kind === "llm.call.request")
    .map(({ payload }) =>
      (payload as { tools: { name: string }[] }).tools.map(({ name }) => name).toSorted(),
    );
const outcomes = ({ events }: TestSession): BusEvent[] =>
  events.filter(({ kind }) => kind === "tool.call.result" || kind === "tool.error");

verifies(
  "tools.token-cost",
  "shows the cost of each tool and offers a deferred tool only after a search in the same run",
  async () => {
    const fixture = await createTestSession({
      tools: [addTool, makeTool("weather", { description: "Tells the weather.", deferred: true })],
    });
    const entries = await fixture.kernel.catalog.listEntries(user, { all: false });
    const costs = new Map(entries.map(({ name, token_cost }) => [name, token_cost]));
    const model_tool = {
      name: addTool.name,
      description: addTool.description,
      parameters: addTool.parameters,
    };
    expect(costs.get("add")).toBe(Math.ceil(JSON.stringify(model_tool).length / 4));
    expect([...costs.keys()]).toEqual(["add", "tool_search", "weather"]);
    await fixture.say(
      '/tool weather {}\n/then\n/tool tool_search {"query": "weather forecast"}\n/then\n/tool weather {}\n/then\n/say end',
    );
    expect(offeredTools(fixture)).toEqual([
      ["add", "tool_search"],
      ["add", "tool_search"],
      ["add", "tool_search", "weather"],
      ["add", "tool_search", "weather"],
    ]);
    const [refused, search, ran] = outcomes(fixture);
    expect(refused!.payload).toMatchObject({
      kind: "not_found",
      brief: "weather must be found with tool_search first",
    });
    const { envelope } = search!.payload as unknown as { envelope: { display: { data: Json } } };
    expect(envelope.display.data).toMatchObject({ tools: [{ name: "weather" }] });
    expect(ran!.payload).toMatchObject({ ok: true });
    // Another run begins without the found tool. Without deferred tools the search tool is not offered.
    await fixture.say("/say hello", "s3");
    expect(offeredTools(fixture).at(-1)).toEqual(["add", "tool_search"]);
    const plain = await createTestSession();
    await plain.say("/say hello");
    expect(offeredTools(plain)).toEqual([["add"]]);
    await plain.kernel.policy.put(admin, "org", { deferred_tools: ["a*"] });
    await plain.say("/say hello");
    expect(offeredTools(plain).at(-1)).toEqual(["tool_search"]);
  },
);

test("uses one catalog for a whole turn but applies a policy change from the next call on", async () => {
  const gate = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const wait = makeTool("wait", {
    run: async () => {
      entered.resolve();
      await gate.promise;
      return toolOk("done");
    },
  });
  const fixture = await createTestSession({ tools: [wait, addTool] });
  const turn = fixture.say('/tool wait {}\n/then\n/tool late {}\n/tool add {"a":1,"b":2}\n/then\n/say end');
  await entered.promise;
  await fixture.bind(manifest([toolExport("late")]));
  await fixture.kernel.policy.put(admin, "org", { roles: { user: { deny: { tools: ["add"] } } } });
  gate.resolve();
  await turn;
  expect(offeredTools(fixture)).toEqual([
    ["add", "wait"],
    ["add", "wait"],
    ["add", "wait"],
  ]);
  const results = outcomes(fixture)
    .slice(1)
    .map(({ payload }) => String(payload.brief));
  expect(results.toSorted()).toEqual([
    "The role user may not use add: the tool is denied.",
    "there is no tool late",
  ]);
  await fixture.say("/say again");
  expect(offeredTools(fixture).at(-1)).toEqual(["late", "wait"]);
});

verifies(
  "client.profiles",
  "defers tools above the budget in a turn until the model finds them",
  async () => {
    const fixture = await createTestSession();
    const content = manifest([
      toolExport("weather", { description: `Tells the weather. ${"x".repeat(3_000)}` }),
    ]);
    await fixture.bind(content);
    await fixture.kernel.policy.put(admin, "org", { tool_token_budget: 500 });
    await fixture.say('/tool tool_search {"query": "weather"}\n/then\n/say end');
    expect(offeredTools(fixture).map((names) => names.includes("weather"))).toEqual([false, true]);
    expect(offeredTools(fixture)[0]).toContain("tool_search");
  },
);

verifies(
  "client.profiles",
  "reduces 210 tools of 62,000 tokens in total to at most 8,000 tokens per model call",
  async () => {
    const fixture = await createTestSession();
    const bindTool = async (n: number) => {
      const tool = toolExport(`tool_${n}`, { description: `Does ${n}. ${"x".repeat(1_110)}` });
      await fixture.bind(manifest([tool], { package_id: `acme/kit-${n}` }));
    };
    await Promise.all(Array.from({ length: 210 }, (_, n) => bindTool(n)));
    const cost = async (tool_token_budget: number): Promise<number> => {
      await fixture.kernel.policy.put(admin, "org", { tool_token_budget });
      await fixture.say("/say done");
      const { payload } = fixture.events.findLast(({ kind }) => kind === "llm.call.request")!;
      // Four characters per token, as in every other estimate.
      return Math.ceil(JSON.stringify((payload as { tools: Json }).tools).length / 4);
    };
    const before = await cost(10_000_000);
    const after = await cost(8_000);
    expect(before).toBeGreaterThan(62_000);
    expect(after).toBeLessThanOrEqual(8_000);
    expect(offeredTools(fixture).at(-1)).toContain("tool_search");
  },
);
