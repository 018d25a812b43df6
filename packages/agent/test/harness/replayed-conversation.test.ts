/** The conversation that a harness gets when it starts again: replayed, or reseeded with its summary. */
import { BackplaneError, type Block, type JsonObject } from "@backplane/contract";
import { ended } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../loop/test-session.ts";
import { crashOnce, harnessPackage } from "./test-harness.ts";

verifies("harness.checkpoint", "replays attachments, and large ones as references", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage({ fidelity: "prompt_replay" }));
  const attachments: JsonObject[] = [
    { type: "image", data: `iVBORw0KGgo${"A".repeat(40_000)}`, mimeType: "image/png", name: "plan.png" },
    { name: "notes.txt", text: "the key is blue" },
  ];
  const input = { text: "/say see", attachments };
  await (await fixture.kernel.runs.start(user, { session_id: "s1", input })).settled;
  const { chain } = (await crashOnce(fixture)) as { chain: { chain_id: string; blocks: Block[] } };
  const [message] = chain.blocks;
  expect(message!.content).toMatchObject([
    { type: "text", text: "/say see" },
    { type: "image", name: "plan.png", transport: "stored", entry_id: message!.entry_id, content_index: 1 },
    { type: "text", name: "notes.txt", text: "the key is blue" },
  ]);
  expect(message!.content[1]).not.toHaveProperty("data");
  // The reference leads to the data.
  const [stored] = await fixture.kernel.chains.listBlocks(user, chain.chain_id, message!.entry_id! - 1, 1);
  expect(stored!.content[1]).toMatchObject({ data: attachments[0]!.data });
});

verifies(
  "compact.auto",
  "publishes the start and the end of the compaction that reseeds a harness",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage({ fidelity: "summary_reseed" }));
    await fixture.say(`/say ${"lorem ipsum dolor ".repeat(40)}`);
    const events = () => fixture.events.filter(({ kind }) => kind.startsWith("session.compaction."));
    const body = await crashOnce(fixture);
    const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    const compaction = await fixture.kernel.sessions.getCompaction(user, head_chain_id);
    const { tokens_before, tokens_after } = compaction;
    expect(events()).toMatchObject([
      {
        kind: "session.compaction.started",
        session_id: "kernel",
        payload: { target_session_id: "s1", tokens_before },
      },
      {
        kind: "session.compaction.completed",
        session_id: "kernel",
        payload: { target_session_id: "s1", tokens_before, tokens_after },
      },
    ]);
    // The gateway makes this compaction, so it does not count towards the limit of the harness.
    const { execution_id } = body.target as { execution_id: string };
    const { used } = await fixture.kernel.runs.getExecution(user, execution_id);
    expect(used).toMatchObject({ compactions: 0 });

    fixture.store.sessions.compact = () => Promise.reject(new BackplaneError("internal", "no chain today"));
    fixture.runner.script = ({ event }) => {
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { text: "half done" } } });
      return ended("failed", "crashed");
    };
    const start = { session_id: "s1", input: { text: "fix the bug" }, harness: { export_id: "triage" } };
    const done = await (await fixture.kernel.runs.start(user, start)).settled;
    expect(done.status).toBe("failed");
    expect(events().slice(2)).toMatchObject([
      { kind: "session.compaction.started" },
      {
        kind: "session.compaction.failed",
        payload: { target_session_id: "s1", error: expect.stringContaining("no chain today") },
      },
    ]);
  },
);
