/** The answer of a bound compactor is checked before the session changes. */
import type { Json } from "@backplane/contract";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const REF = { session_id: "s1" };
const TEXT = [{ type: "text", text: "what matters" }];

async function createSessionWithCompactor(answer: () => Json): Promise<TestSession> {
  const fixture = await createTestSession();
  await fixture.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]));
  for (let n = 0; n < 3; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(30)}`);
  fixture.runner.script = async () => ok(answer());
  return fixture;
}

const MALFORMED: [name: string, answer: Json][] = [
  ["an object with only unknown fields", { nonsense: 1 }],
  ["an empty object", {}],
  ["a list", [1]],
  ["an answer with neither a block nor a summary", { seed_blocks: [] }],
  ["a blank summary without a block", { seed_blocks: [], summary: { text: " " } }],
  ["seed_blocks that are not a list", { seed_blocks: { kind: "input", content: TEXT } }],
  ["a block that is not an object", { seed_blocks: ["hello"] }],
  ["a block of an unknown kind", { seed_blocks: [{ kind: "anchor", content: TEXT }] }],
  ["a block without content", { seed_blocks: [{ kind: "input" }] }],
  ["content without a type", { seed_blocks: [{ kind: "input", content: [{ text: "x" }] }] }],
  ["a tool call without a name", { seed_blocks: [{ kind: "tool_call", tool_call_id: "c1", content: [] }] }],
  ["a tool result without its call", { seed_blocks: [{ kind: "tool_result", content: TEXT }] }],
  ["an invalid block after a valid one", { seed_blocks: [{ kind: "input", content: TEXT }, null] }],
  ["a summary that is text", { seed_blocks: [{ kind: "input", content: TEXT }], summary: "short" }],
  ["a summary without text", { seed_blocks: [{ kind: "input", content: TEXT }], summary: { words: "x" } }],
  ["diagnostics that are text", { seed_blocks: [{ kind: "input", content: TEXT }], diagnostics: "fine" }],
];

for (const [name, answer] of MALFORMED) {
  verifies("contract.malformed", `refuses ${name} from a compactor and changes nothing`, async () => {
    const fixture = await createSessionWithCompactor(() => answer);
    const before = await fixture.kernel.sessions.get(user, REF);
    const tape = await fixture.tape();
    const compacting = fixture.kernel.sessions.compact(user, REF, { compactor: "shrink" });
    await expect(compacting).rejects.toMatchObject({ code: "malformed_response" });
    expect(await fixture.kernel.sessions.get(user, REF)).toEqual(before);
    expect(await fixture.tape()).toEqual(tape);
    const { items } = await fixture.kernel.chains.list(user, REF, { limit: 5 });
    expect(items.map(({ origin }) => origin)).toEqual(["start"]);
    const calls = (await fixture.kernel.invocations.list(user, { export_id: "shrink" }, { limit: 5 })).items;
    expect(calls.map(({ status, error }) => [status, error?.code])[0]).toEqual([
      "failed",
      "malformed_response",
    ]);
    expect(calls[0]!.result).toBeNull();
  });
}

test.each<[string, Json]>([
  ["blocks alone", { seed_blocks: [{ kind: "input", content: TEXT }] }],
  ["a summary alone", { seed_blocks: [], summary: { text: "short" } }],
  [
    "every kind of block",
    {
      seed_blocks: [
        { kind: "system", content: TEXT },
        { kind: "input", content: TEXT },
        { kind: "thinking", content: TEXT },
        { kind: "tool_call", tool_call_id: "c1", name: "add", input: { a: 1 }, content: [] },
        { kind: "tool_result", tool_call_id: "c1", content: TEXT, is_error: false },
        { kind: "response", content: TEXT },
      ],
      summary: { text: "short" },
      diagnostics: { dropped: 3 },
    },
  ],
])("accepts a compactor answer with %s", async (_name, answer) => {
  const fixture = await createSessionWithCompactor(() => answer);
  expect(await fixture.kernel.sessions.compact(user, REF)).toMatchObject({ origin: "compaction" });
});

verifies(
  "compactor.repeat",
  "compacts three times with an undo after each compaction and without a message in between",
  async () => {
    let summaries = 0;
    const fixture = await createSessionWithCompactor(() => ({
      seed_blocks: [],
      summary: { text: `short ${++summaries}` },
    }));
    const start = (await fixture.kernel.sessions.get(user, REF)).head_chain_id;
    const created = new Set<string>();
    for (let round = 0; round < 3; round++) {
      const chain = await fixture.kernel.sessions.compact(user, REF);
      expect(chain).toMatchObject({ origin: "compaction", parent_chain_id: start });
      created.add(chain.id);
      const undone = await fixture.kernel.sessions.undoCompaction(user, REF);
      expect(undone.id).toBe(start);
    }
    expect(created.size).toBe(3);
    expect(await fixture.kernel.chains.verify(user, start)).toBeNull();
    for (const id of created) expect(await fixture.kernel.chains.verify(user, id)).toBeNull();
  },
);

verifies(
  "compactor.repeat",
  "compacts with the model's summary again after an undo, and the conversation continues",
  async () => {
    const fixture = await createTestSession();
    for (let n = 0; n < 6; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(60)}`);
    const start = (await fixture.kernel.sessions.get(user, REF)).head_chain_id;
    await fixture.kernel.sessions.compact(user, REF);
    await fixture.kernel.sessions.undoCompaction(user, REF);
    const again = await fixture.kernel.sessions.compact(user, REF);
    expect(again).toMatchObject({ origin: "compaction", parent_chain_id: start });
    // The conversation continues from the summary.
    expect((await fixture.say("/say still here")).status).toBe("completed");
    expect((await fixture.kernel.sessions.get(user, REF)).head_chain_id).toBe(again.id);
  },
);

verifies(
  "contract.malformed",
  "names the compactor and the two sizes when its answer is not smaller than the conversation",
  async () => {
    const text = "lorem ipsum dolor ".repeat(400);
    const fixture = await createSessionWithCompactor(() => ({ seed_blocks: [], summary: { text } }));
    const compacting = fixture.kernel.sessions.compact(user, REF, { compactor: "shrink" });
    await expect(compacting).rejects.toMatchObject({
      code: "request.invalid",
      message: expect.stringMatching(
        /^The compactor shrink of \S+ 0\.1\.0 saves nothing: it returned about \d{4} tokens for a conversation of about \d{3}\.$/,
      ),
    });
  },
);
