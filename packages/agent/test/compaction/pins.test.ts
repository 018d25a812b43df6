/**
 * Every compaction keeps pinned entries, whoever writes the seed. Pins survive an undo, are copied to a fork, and are
 * removed by a reset.
 */
import type { Entry, Json } from "@backplane/contract";
import { plugin as pinTool } from "@backplane/plugin-pin-tool";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, guest, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const REF = { session_id: "s1" };
const LOREM = "lorem ipsum dolor ".repeat(40);

interface ProjectedBlock {
  entry_id: number;
  kind: string;
  content: { text: string }[];
}

/** A session whose first message is worth keeping. */
async function createSessionWithHistory(options: { tool?: boolean } = {}): Promise<TestSession> {
  const fixture = await createTestSession(options.tool === true ? { plugins: [pinTool] } : {});
  await fixture.say("/say the deploy key is on the blue shelf");
  for (let n = 0; n < 4; n++) await fixture.say(`/say ${n} ${LOREM}`);
  return fixture;
}

const userMessages = async (fixture: TestSession): Promise<Entry[]> =>
  (await fixture.tape()).filter(({ kind, payload }) => kind === "message" && payload.role === "user");

/** The text of the model's context. */
async function readContext(fixture: TestSession, session_id = "s1"): Promise<string> {
  const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id });
  const from = await fixture.kernel.chains.findViewStart(user, head_chain_id);
  return JSON.stringify(await fixture.kernel.chains.listBlocks(user, head_chain_id, from, 1_000));
}

function bindCompactor(
  fixture: TestSession,
  supports_pinned_items: boolean,
  seed: (blocks: ProjectedBlock[]) => Json,
) {
  fixture.runner.script = ({ request }) => {
    const { projection } = request.body.source as unknown as { projection: { blocks: ProjectedBlock[] } };
    return ok({ seed_blocks: seed(projection.blocks), summary: { text: "short" } });
  };
  return fixture.bind(manifest([{ id: "shrink", kind: "compactor", compactor: { supports_pinned_items } }]));
}

verifies(
  "compactor.pins",
  "keeps a pinned message through the built-in summary, an undo and further compactions",
  async () => {
    const fixture = await createSessionWithHistory();
    const { sessions } = fixture.kernel;
    const [first, second] = await userMessages(fixture);
    const pin = await sessions.pin(user, REF, first!.id);
    expect(pin).toMatchObject({
      entry_id: first!.id,
      kind: "message",
      in_context: true,
      pinned_by: "key_user",
    });
    expect(pin.text).toContain("blue shelf");
    await sessions.compact(user, REF);
    expect(await readContext(fixture)).toContain("/say the deploy key is on the blue shelf");
    expect(await readContext(fixture)).not.toContain(`/say 0 ${LOREM}`);
    await sessions.undoCompaction(user, REF);
    expect(await sessions.listPins(user, REF)).toEqual([pin]);
    // A second compaction keeps the copy that the first one made.
    await sessions.compact(user, REF);
    await fixture.say(`/say again ${LOREM}`);
    await sessions.compact(user, REF);
    expect(await readContext(fixture)).toContain("/say the deploy key is on the blue shelf");
    expect(await sessions.listPins(user, REF)).toEqual([pin]);
    // An entry that was dropped can be pinned and returns with the next compaction.
    await sessions.pin(user, REF, second!.id);
    expect((await sessions.listPins(user, REF)).map(({ in_context }) => in_context)).toEqual([true, false]);
    await fixture.say(`/say more ${LOREM}`);
    await sessions.compact(user, REF);
    expect(await readContext(fixture)).toContain("/say 0 lorem");
    // Without its pin the entry is summarized like any other.
    expect(await sessions.unpin(user, REF, second!.id)).toBe(true);
    expect(await sessions.unpin(user, REF, second!.id)).toBe(false);
    await fixture.say(`/say last ${LOREM}`);
    await sessions.compact(user, REF);
    expect(await readContext(fixture)).not.toContain("/say 0 lorem");
  },
);

verifies(
  "compactor.pins",
  "refuses the answer of a compactor that supports pins but drops one, and changes nothing",
  async () => {
    const fixture = await createSessionWithHistory();
    const { sessions } = fixture.kernel;
    const [first] = await userMessages(fixture);
    await sessions.pin(user, REF, first!.id);
    await bindCompactor(fixture, true, () => []);
    const before = await sessions.get(user, REF);
    await expect(sessions.compact(user, REF, { compactor: "shrink" })).rejects.toMatchObject({
      code: "malformed_response",
      message: expect.stringContaining(`entry ${first!.id} is pinned`),
    });
    expect(await sessions.get(user, REF)).toEqual(before);
    const { projection } = fixture.runner.requests[0]!.body.source as unknown as {
      projection: { pinned_items: ProjectedBlock[] };
    };
    expect(projection.pinned_items.map(({ entry_id }) => entry_id)).toEqual([first!.id]);
  },
);

verifies("compactor.pins", "accepts a seed that repeats the pinned block without its id", async () => {
  const fixture = await createSessionWithHistory();
  const { sessions } = fixture.kernel;
  const [first] = await userMessages(fixture);
  await sessions.pin(user, REF, first!.id);
  await bindCompactor(fixture, true, (blocks) => [
    { kind: "input", content: blocks.find(({ entry_id }) => entry_id === first!.id)!.content },
  ]);
  await sessions.compact(user, REF, { compactor: "shrink" });
  expect(await sessions.listPins(user, REF)).toMatchObject([{ entry_id: first!.id, in_context: true }]);
});

verifies(
  "compactor.pins",
  "adds the pins to the seed of a compactor that does not support them",
  async () => {
    const fixture = await createSessionWithHistory();
    const { sessions } = fixture.kernel;
    const [first] = await userMessages(fixture);
    await sessions.pin(user, REF, first!.id);
    await bindCompactor(fixture, false, () => []);
    await sessions.compact(user, REF, { compactor: "shrink", max_input_tokens: 500 });
    expect(await readContext(fixture)).toContain("blue shelf");
    const { source, target } = fixture.runner.requests[0]!.body as {
      source: { projection: { pinned_items: Json[] } };
      target: { max_input_tokens: number };
    };
    expect(source.projection.pinned_items).toEqual([]);
    // The pins count against the target.
    expect(target.max_input_tokens).toBeLessThan(500);
  },
);

verifies(
  "compactor.pins",
  "copies the pins of inherited entries to a fork, and removes all pins on a reset",
  async () => {
    const fixture = await createSessionWithHistory();
    const { sessions } = fixture.kernel;
    const [first, second] = await userMessages(fixture);
    await sessions.pin(user, REF, first!.id);
    await sessions.pin(user, REF, second!.id);
    await sessions.fork(user, REF, { child_id: "early", at: first!.id });
    await sessions.fork(user, REF, { child_id: "late" });
    const ids = async (session_id: string) =>
      (await sessions.listPins(user, { session_id })).map(({ entry_id }) => entry_id);
    expect([await ids("early"), await ids("late")]).toEqual([[first!.id], [first!.id, second!.id]]);
    await sessions.unpin(user, { session_id: "late" }, first!.id);
    expect(await ids("s1")).toEqual([first!.id, second!.id]);
    await sessions.reset(user, REF);
    expect(await ids("s1")).toEqual([]);
  },
);

verifies("compactor.pins", "lets the model pin, list and unpin with the bundled tool", async () => {
  const fixture = await createSessionWithHistory({ tool: true });
  const [first] = await userMessages(fixture);
  // By default, tools that write need approval.
  await fixture.kernel.policy.put(admin, "org", { tolerance: { conversation: "medium" } });
  const call = async (args: Json) => {
    await fixture.say(`/tool pin ${JSON.stringify(args)}`);
    const { payload } = (await fixture.tape()).findLast(({ kind }) => kind === "tool_result")!;
    return JSON.stringify(payload);
  };
  expect(await call({ quote: "is on the blue shelf" })).toContain("pinned entry");
  const [pin] = await fixture.kernel.sessions.listPins(user, REF);
  // The answer of the echo model repeats the words after the user's message, and the newest match is pinned.
  expect(pin!.entry_id).toBeGreaterThan(first!.id);
  expect(pin!.text).toContain("blue shelf");
  expect(await call({ action: "list" })).toContain("blue shelf");
  expect(await call({ quote: "never\nsaid" })).toContain("No message or tool result");
  await call({ action: "unpin", entry_id: pin!.entry_id });
  expect(await fixture.kernel.sessions.listPins(user, REF)).toEqual([]);
  // The calls go through the door like all others.
  const { items } = await fixture.kernel.invocations.list(user, { export_id: "pin" }, { limit: 10 });
  expect(items).toHaveLength(4);
});

test("rejects pins by guests, of missing entries, of anchors and in missing sessions", async () => {
  const fixture = await createSessionWithHistory();
  const { sessions } = fixture.kernel;
  await expect(sessions.pin(guest, REF, 2)).rejects.toMatchObject({ code: "policy.denied" });
  await expect(sessions.pin(user, REF, 9_999)).rejects.toMatchObject({ code: "request.invalid" });
  await expect(sessions.pin(user, REF, 1)).rejects.toMatchObject({ code: "request.invalid" });
  await expect(sessions.pin(user, { session_id: "other" }, 2)).rejects.toMatchObject({
    code: "session.not_found",
  });
});
