/** Which tools are deferred: the profile of a key, the budget of the policy, and how often a tool was called. */
import type { Caller } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const NAMES = ["tool_a", "tool_b", "tool_c", "tool_d"];
/** Each tool costs about 1,000 tokens. */
const TOOLS = manifest(
  NAMES.map((name) => toolExport(name, { description: `Does ${name}. ${"word ".repeat(790)}` })),
);

async function createToolKernel(): Promise<TestKernel> {
  const fixture = await createTestKernel();
  for (const export_id of NAMES) await fixture.bind(TOOLS, { export_id });
  return fixture;
}

async function listDeferred({ kernel }: TestKernel, caller: Caller = user): Promise<Record<string, string>> {
  const entries = await kernel.catalog.listEntries(caller, { all: false });
  return Object.fromEntries(
    entries.flatMap(({ name, deferred, deferred_by }) => {
      expect(deferred).toBe(deferred_by !== null);
      return deferred_by === null ? [] : [[name, deferred_by]];
    }),
  );
}

const setPolicy = ({ kernel }: TestKernel, policy: object) => kernel.policy.put(admin, "org", policy);
const callTool = async (fixture: TestKernel, export_id: string) => {
  expect((await fixture.call({ export_id, input: {} })).status).toBe("succeeded");
};

verifies(
  "client.profiles",
  "defers nothing within the budget and the least used tools above it",
  async () => {
    const fixture = await createToolKernel();
    expect(await listDeferred(fixture)).toEqual({});
    await callTool(fixture, "tool_d");
    await callTool(fixture, "tool_d");
    await callTool(fixture, "tool_c");
    await setPolicy(fixture, { tool_token_budget: 2_500 });
    expect(await listDeferred(fixture)).toEqual({ tool_a: "budget", tool_b: "budget" });
    expect(
      (await fixture.kernel.catalog.listEntries(user, { all: false })).map(({ name }) => name),
    ).toContain("tool_search");
    await setPolicy(fixture, { tool_token_budget: 0 });
    expect(Object.keys(await listDeferred(fixture))).toEqual(NAMES);
  },
);

verifies(
  "client.profiles",
  "keeps the choice of tools for an hour although calls change the usage",
  async () => {
    const fixture = await createToolKernel();
    await setPolicy(fixture, { tool_token_budget: 1_500 });
    const first = await listDeferred(fixture);
    expect(Object.keys(first)).toHaveLength(3);
    const [called_tool] = Object.keys(first);
    await callTool(fixture, called_tool!);
    fixture.clock.monotonic_offset += 2_000;
    expect(await listDeferred(fixture)).toEqual(first);
    fixture.clock.monotonic_offset += 3_600_000;
    expect(Object.keys(await listDeferred(fixture))).not.toContain(called_tool);
  },
);

verifies(
  "client.profiles",
  "never defers a pinned tool, even if the policy defers it or the budget is 0",
  async () => {
    const fixture = await createToolKernel();
    await setPolicy(fixture, {
      tool_token_budget: 0,
      deferred_tools: ["tool_a", "tool_b"],
      pinned_tools: ["tool_a", "tool_d"],
    });
    expect(await listDeferred(fixture)).toEqual({ tool_b: "policy", tool_c: "budget" });
  },
);

verifies(
  "client.profiles",
  "lists the tools that a key specifies and finds the others by search",
  async () => {
    const fixture = await createToolKernel();
    const { kernel } = fixture;
    const { key, token } = await kernel.keys.create(admin, {
      name: "client:x",
      scopes: ["invocations:write"],
      role: "user",
      tools: ["tool_b", "*_c", "*_c"],
    });
    expect(key.tools).toEqual(["tool_b", "*_c"]);
    const caller = await kernel.keys.authenticate(token);
    expect(await listDeferred(fixture, caller)).toEqual({ tool_a: "profile", tool_d: "profile" });
    // The operator chose these tools, so the budget does not defer them.
    await setPolicy(fixture, { tool_token_budget: 0 });
    expect(await listDeferred(fixture, caller)).toEqual({ tool_a: "profile", tool_d: "profile" });
    expect((await kernel.catalog.search(caller, "tool a", 1)).map(({ name }) => name)).toEqual(["tool_a"]);
    expect(await kernel.catalog.search(caller, "zebra", 5)).toEqual([]);
    // A profile is a choice of what is listed, not a limit on what may be called.
    expect(await kernel.catalog.find(caller, "tool_a")).toMatchObject({ deferred: true });
    expect(await listDeferred(fixture, user)).toMatchObject({ tool_b: "budget" });
  },
);

verifies(
  "client.profiles",
  "lists the tools of a named profile for every key that refers to it",
  async () => {
    const fixture = await createToolKernel();
    const { kernel } = fixture;
    const createKey = async (...tools: string[]) =>
      await kernel.keys.create(admin, {
        name: "client:x",
        scopes: ["invocations:write"],
        role: "user",
        tools,
      });
    await expect(createKey("@review")).rejects.toMatchObject({
      code: "request.invalid",
      message: expect.stringContaining("review"),
    });
    await setPolicy(fixture, { tool_profiles: { review: ["tool_a"], write: ["tool_b"] } });
    const first = await kernel.keys.authenticate((await createKey("@review")).token);
    const second = await kernel.keys.authenticate((await createKey("@review", "@write", "tool_d")).token);
    expect(Object.keys(await listDeferred(fixture, first))).toEqual(["tool_b", "tool_c", "tool_d"]);
    expect(Object.keys(await listDeferred(fixture, second))).toEqual(["tool_c"]);
    // A change of a profile applies to all keys that refer to it.
    await setPolicy(fixture, { tool_profiles: { review: ["tool_c"], write: [] } });
    expect(Object.keys(await listDeferred(fixture, first))).toEqual(["tool_a", "tool_b", "tool_d"]);
    expect(Object.keys(await listDeferred(fixture, second))).toEqual(["tool_a", "tool_b"]);
  },
);

test("does not defer by budget for a plugin, nor where the policy withholds tool_search", async () => {
  const fixture = await createToolKernel();
  await setPolicy(fixture, { tool_token_budget: 0 });
  const delegated: Caller = {
    ...user,
    delegation: { invocation_id: "inv_1", scopes: ["tools:invoke"], grant: grantWith({ tools: NAMES }) },
  };
  expect(await listDeferred(fixture, delegated)).toEqual({});
  await setPolicy(fixture, { tool_token_budget: 0, allowed_origins: ["plugin"] });
  expect(await listDeferred(fixture)).toEqual({});
});
