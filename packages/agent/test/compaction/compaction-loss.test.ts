/** Every compaction reports what it kept, condensed and dropped, entry by entry. */
import type { Json } from "@backplane/contract";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const REF = { session_id: "s1" };

async function createLongSession(): Promise<TestSession> {
  const fixture = await createTestSession();
  for (let n = 0; n < 5; n++) await fixture.say(`/say ${n} ${"lorem ipsum dolor ".repeat(60)}`);
  return fixture;
}

verifies(
  "compactor.loss",
  "reports the outcome and the tokens of every entry after a built-in summary",
  async () => {
    const fixture = await createLongSession();
    const { sessions } = fixture.kernel;
    const { id } = await sessions.compact(user, REF);
    const { tokens_before, tokens_after, loss } = await sessions.getCompaction(user, id);
    const entries = await sessions.listCompactedEntries(user, id);
    const withOutcome = (wanted: string) => entries.filter(({ outcome }) => outcome === wanted);
    expect(entries).toHaveLength(10);
    expect(loss).toMatchObject({
      kept: withOutcome("kept").length,
      condensed: 0,
      dropped: withOutcome("dropped").length,
      dropped_tokens: withOutcome("dropped").reduce((sum, entry) => sum + entry.tokens_before, 0),
    });
    expect(withOutcome("dropped").length).toBeGreaterThan(0);
    // Older entries were dropped, without a gap.
    expect(loss!.dropped_entries).toEqual([
      [withOutcome("dropped")[0]!.entry_id, withOutcome("dropped").at(-1)!.entry_id],
    ]);
    expect(entries.reduce((sum, entry) => sum + entry.tokens_before, 0)).toBe(tokens_before);
    const copied_tokens = entries.reduce((sum, entry) => sum + entry.tokens_after, 0);
    expect(copied_tokens).toBeLessThanOrEqual(tokens_after!);
    for (const entry of withOutcome("kept")) expect(entry).toMatchObject({ into: [expect.any(Number)] });
    for (const entry of withOutcome("dropped")) expect(entry).toMatchObject({ into: [], tokens_after: 0 });
    // Later messages, even on the source chain after an undo, do not change the report.
    await fixture.say("/say after");
    await sessions.undoCompaction(user, REF);
    await fixture.say("/say on the old chain");
    expect(await sessions.listCompactedEntries(user, id)).toEqual(entries);
  },
);

verifies("compactor.loss", "reports entries as condensed if a block lists them as its sources", async () => {
  const fixture = await createLongSession();
  const { sessions } = fixture.kernel;
  await fixture.bind(manifest([{ id: "weave", kind: "compactor", compactor: {} }]));
  let ids: number[] = [];
  fixture.runner.script = ({ request }) => {
    const { projection } = request.body.source as unknown as {
      projection: { blocks: { entry_id: number }[] };
    };
    const { blocks } = projection;
    ids = blocks.map(({ entry_id }) => entry_id);
    const woven = {
      kind: "input",
      content: [{ type: "text", text: "woven" }],
      from_entries: ids.slice(2, 6),
    };
    return ok({ seed_blocks: [woven, blocks[8], blocks[9]] as unknown as Json, summary: { text: "s" } });
  };
  const { id } = await sessions.compact(user, REF);
  const { loss } = await sessions.getCompaction(user, id);
  expect(loss).toMatchObject({
    kept: 2,
    condensed: 4,
    dropped: 4,
    dropped_entries: [
      [ids[0], ids[1]],
      [ids[6], ids[7]],
    ],
  });
  const entries = await sessions.listCompactedEntries(user, id);
  expect(entries.map(({ outcome }) => outcome.charAt(0)).join("")).toBe("ddccccddkk");
  // The block on the new chain lists its sources.
  const [, woven] = await fixture.kernel.chains.listBlocks(
    user,
    id,
    await fixture.kernel.chains.findViewStart(user, id),
    10,
  );
  expect(woven).toMatchObject({ kind: "input", from_entries: ids.slice(2, 6) });
  expect(entries[2]!.into).toEqual([woven!.entry_id]);
});

verifies(
  "compactor.loss",
  "restores every dropped entry on an undo, and drops the same ones when the compaction is repeated",
  async () => {
    const fixture = await createLongSession();
    const { sessions, chains } = fixture.kernel;
    const source = await sessions.get(user, REF);
    const before = await chains.listBlocks(user, source.head_chain_id, 0, 100);
    const first = await sessions.compact(user, REF);
    expect((await sessions.undoCompaction(user, REF)).id).toBe(source.head_chain_id);
    expect(await chains.listBlocks(user, source.head_chain_id, 0, 100)).toEqual(before);
    const second = await sessions.compact(user, REF);
    const outcomes = async (id: string) =>
      (await sessions.listCompactedEntries(user, id)).map(({ entry_id, outcome }) => [entry_id, outcome]);
    expect(await outcomes(second.id)).toEqual(await outcomes(first.id));
  },
);
