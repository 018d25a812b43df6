/** Risk in turns: what runs, what asks and what is refused, by context; and tools that are found only by searching. */
import type { BusEvent, Json, KernelTool, Risk } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, tool } from "@backplane/test-kit/kernel/manifests";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, openTalk, type Talk } from "./talk.ts";

const toolOf = (risk: Risk, more: Partial<KernelTool> = {}): KernelTool => ({
  name: `do_${risk}`,
  description: `Does something of ${risk} risk.`,
  parameters: { type: "object" },
  risk,
  run: () => toolOk("done"),
  ...more,
});
const RISKY = (["low", "medium", "high", "critical", "unknown"] as const).map((risk) => toolOf(risk));

const pending = async ({ kernel }: Talk) =>
  (await kernel.approvals.list(admin, { status: "pending" }, { limit: 20 })).items;
const offered = ({ events }: Talk): string[][] =>
  events
    .filter(({ kind }) => kind === "llm.call.request")
    .map(({ payload }) =>
      (payload as { tools: { name: string }[] }).tools.map(({ name }) => name).toSorted(),
    );
const outcomes = ({ events }: Talk): BusEvent[] =>
  events.filter(({ kind }) => kind === "tool.call.result" || kind === "tool.error");

/** Which of the tools ask, when a turn calls all of them; every question is then answered with no. */
async function asksIn(talk: Talk, start: (text: string) => Promise<unknown>): Promise<string[]> {
  const turn = start(RISKY.map(({ name }) => `/tool ${name} {}`).join("\n"));
  const before = outcomes(talk).length;
  let asked = await pending(talk);
  await until(async () => {
    asked = await pending(talk);
    return asked.length + outcomes(talk).length - before === RISKY.length;
  });
  for (const { id } of asked) await talk.kernel.approvals.answer(admin, id, { response: "reject" });
  await turn;
  return asked.map((approval) => approval.tool.slice(3)).toSorted();
}

verifies(
  "tools.risk",
  "low runs, medium asks at the default, high unless full, critical always",
  async () => {
    const talk = await openTalk({ tools: RISKY });
    const say = (text: string) => talk.say(text);
    expect(await asksIn(talk, say)).toEqual(["critical", "high", "medium", "unknown"]);
    const tolerate = (conversation: "none" | "medium" | "full") =>
      talk.kernel.policy.put(admin, "org", { tolerance: { conversation } });
    await tolerate("none");
    expect(await asksIn(talk, say)).toEqual(["critical", "high", "low", "medium", "unknown"]);
    await tolerate("medium");
    expect(await asksIn(talk, say)).toEqual(["critical", "high", "unknown"]);
    await tolerate("full");
    expect(await asksIn(talk, say)).toEqual(["critical"]);
  },
);

verifies(
  "tools.risk",
  "each context has its own tolerance, and in headless what would ask is refused",
  async () => {
    const talk = await openTalk({ tools: RISKY });
    await talk.kernel.policy.put(admin, "org", {
      tolerance: { conversation: "full", background: "medium", headless: "low" },
    });
    const start = (context?: "conversation" | "headless") => async (text: string) => {
      const how = context === undefined ? {} : { context };
      const ticket = await talk.kernel.runs.start(user, { session_id: "s2", input: { text }, ...how });
      return await ticket.settled;
    };
    expect(await asksIn(talk, start())).toEqual(["critical", "high", "unknown"]);
    expect(await asksIn(talk, start("conversation"))).toEqual(["critical"]);
    const before = outcomes(talk).length;
    expect(await asksIn(talk, start("headless"))).toEqual([]);
    const said = outcomes(talk).slice(before);
    expect(said.map(({ kind }) => kind).toSorted()).toEqual([
      "tool.call.result",
      "tool.error",
      "tool.error",
      "tool.error",
      "tool.error",
    ]);
    expect(said.find(({ kind }) => kind === "tool.error")!.payload).toMatchObject({
      kind: "rejected",
      brief: expect.stringContaining("A headless run cannot ask for approval"),
    });
    const { items } = await talk.kernel.invocations.list(user, { export_id: "do_medium" }, { limit: 1 });
    expect(items[0]).toMatchObject({
      status: "failed",
      error: { code: "policy.denied", details: { rule: "risk" } },
    });
  },
);

verifies("tools.risk-map", "requires_approval asks whatever the risk and the tolerance are", async () => {
  const talk = await openTalk({ tools: [toolOf("low", { requires_approval: true })] });
  await talk.kernel.policy.put(admin, "org", { tolerance: { conversation: "full" } });
  const turn = talk.say("/tool do_low {}");
  await until(async () => (await pending(talk)).length === 1);
  const [asked] = await pending(talk);
  expect(asked).toMatchObject({ tool: "do_low", risk: "low", reason: "the tool requires approval" });
  await talk.kernel.approvals.answer(admin, asked!.id, { response: "approve" });
  await turn;
});

verifies(
  "tools.token-cost",
  "each tool shows its cost; a deferred one is sent to no model, found by searching, callable in that run",
  async () => {
    const talk = await openTalk({
      tools: [addTool, toolOf("low", { name: "weather", description: "Tells the weather.", deferred: true })],
    });
    const entries = await talk.kernel.catalog.entries(user, { all: false });
    const costs = new Map(entries.map(({ name, token_cost }) => [name, token_cost]));
    const spelled = { name: addTool.name, description: addTool.description, parameters: addTool.parameters };
    expect(costs.get("add")).toBe(Math.ceil(JSON.stringify(spelled).length / 4));
    expect([...costs.keys()]).toEqual(["add", "tool_search", "weather"]);
    await talk.say(
      '/tool weather {}\n/then\n/tool tool_search {"query": "weather forecast"}\n/then\n/tool weather {}\n/then\n/say end',
    );
    expect(offered(talk)).toEqual([
      ["add", "tool_search"],
      ["add", "tool_search"],
      ["add", "tool_search", "weather"],
      ["add", "tool_search", "weather"],
    ]);
    const [refused, search, ran] = outcomes(talk);
    expect(refused!.payload).toMatchObject({
      kind: "not_found",
      brief: "weather has to be found with tool_search first",
    });
    const { envelope } = search!.payload as unknown as { envelope: { display: { data: Json } } };
    expect(envelope.display.data).toMatchObject({ tools: [{ name: "weather" }] });
    expect(ran!.payload).toMatchObject({ ok: true });
    // The next run begins without it; where nothing is deferred there is nothing to search for.
    await talk.say("/say hello", "s3");
    expect(offered(talk).at(-1)).toEqual(["add", "tool_search"]);
    const plain = await openTalk();
    await plain.say("/say hello");
    expect(offered(plain)).toEqual([["add"]]);
    await plain.kernel.policy.put(admin, "org", { deferred_tools: ["a*"] });
    await plain.say("/say hello");
    expect(offered(plain).at(-1)).toEqual(["tool_search"]);
  },
);

test("a turn keeps the catalog that it began with; policy holds from the next call on", async () => {
  const gate = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const wait = toolOf("low", {
    name: "wait",
    run: async () => {
      entered.resolve();
      await gate.promise;
      return toolOk("done");
    },
  });
  const talk = await openTalk({ tools: [wait, addTool] });
  const turn = talk.say('/tool wait {}\n/then\n/tool late {}\n/tool add {"a":1,"b":2}\n/then\n/say end');
  await entered.promise;
  await talk.bind(manifest([tool("late")]));
  await talk.kernel.policy.put(admin, "org", { roles: { user: { deny: { tools: ["add"] } } } });
  gate.resolve();
  await turn;
  expect(offered(talk)).toEqual([
    ["add", "wait"],
    ["add", "wait"],
    ["add", "wait"],
  ]);
  const told = outcomes(talk)
    .slice(1)
    .map(({ payload }) => String(payload.brief));
  expect(told.toSorted()).toEqual([
    "The role user may not use add: the tool is denied.",
    "there is no tool late",
  ]);
  await talk.say("/say again");
  expect(offered(talk).at(-1)).toEqual(["late", "wait"]);
});
