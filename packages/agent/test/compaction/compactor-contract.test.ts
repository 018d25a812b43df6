/** The request that a compactor receives, and the checks that its answer has to pass. */
import type { Json, JsonObject } from "@backplane/contract";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";

const REF = { session_id: "s1" };
const SHRINK = { compactor: "shrink" };
const text = (words: string) => [{ type: "text", text: words }];

type Blocks = (JsonObject & { entry_id: number; kind: string })[];
type Answer = (blocks: Blocks) => Json;

/** A session with a system message, an answered question with a tool call, an open question and an open tool call. */
async function createSession(answer: Answer): Promise<TestSession> {
  const fixture = await createTestSession();
  const { sessions, chains } = fixture.kernel;
  await fixture.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]));
  const { head_chain_id } = await sessions.create(user, REF);
  const long = "lorem ipsum dolor ".repeat(80);
  await chains.addBlocks(user, head_chain_id, [
    { kind: "system", content: text("You are a coding agent.") },
    { kind: "input", content: text(`first ${long}`) },
    { kind: "response", content: text(`one ${long}`) },
    { kind: "tool_call", content: [], tool_call_id: "c1", name: "grep", input: { for: "x" } },
    { kind: "tool_result", content: text(`found ${long}`), tool_call_id: "c1", is_error: false },
    { kind: "response", content: text(`two ${long}`) },
    { kind: "input", content: text("and now?") },
    { kind: "tool_call", content: [], tool_call_id: "c2", name: "test", input: {} },
  ]);
  fixture.runner.script = ({ request }) => {
    const { projection } = request.body.source as unknown as { projection: { blocks: Blocks } };
    return ok(answer(projection.blocks));
  };
  return fixture;
}

/** Keeps the blocks that the policy requires. */
const keepRequired: Answer = (blocks) => ({
  seed_blocks: blocks.filter(
    ({ kind, tool_call_id }, n) => kind === "system" || n === 6 || tool_call_id === "c2",
  ),
  summary: { text: "short" },
  diagnostics: { input_tokens_estimate: 900, strategy: "window" },
});

verifies(
  "compactor.contract",
  "sends the chain, the target and the policy, and keeps the diagnostics",
  async () => {
    const fixture = await createSession(keepRequired);
    const { sessions } = fixture.kernel;
    const before = await sessions.get(user, REF);
    const chain = await sessions.compact(user, REF, {
      ...SHRINK,
      max_input_tokens: 400,
      target_model: "gpt-5.4",
    });
    const { compaction_id, source, target, policy } = fixture.runner.requests[0]!.body as Record<
      string,
      JsonObject
    >;
    expect(compaction_id).toMatch(/^cmp_/);
    expect({ target, policy }).toEqual({
      target: { max_input_tokens: 400, target_model: "gpt-5.4" },
      policy: { retain_system: true, retain_open_tasks: true },
    });
    expect(source).toMatchObject({
      chain_id: before.head_chain_id,
      projection: { transport: "inline", pinned_items: [], token_estimate: expect.any(Number) },
    });
    const { blocks } = source!.projection as unknown as { blocks: Blocks };
    expect(blocks.map(({ kind }) => kind)).toEqual(
      "system input response tool_call tool_result response input tool_call".split(" "),
    );
    const compaction = await sessions.getCompaction(user, chain.id);
    expect(compaction).toMatchObject({
      summary: "short",
      source: { chain_id: before.head_chain_id, last_entry_id: before.last_entry_id },
      compactor: { export_id: "shrink", invocation_id: expect.stringMatching(/^inv_/) },
      failed_compactors: [],
      diagnostics: { input_tokens_estimate: 900, strategy: "window" },
    });
    expect(compaction.tokens_after).toBeLessThan(compaction.tokens_before!);
  },
);

verifies("compactor.contract", "keeps at most 16,384 characters of diagnostics", async () => {
  const overhead = JSON.stringify({ log: "" }).length;
  for (const { chars, kept } of [
    { chars: 16_384, kept: { log: "x".repeat(16_384 - overhead) } },
    { chars: 16_385, kept: { omitted_characters: 16_385 } },
  ]) {
    const diagnostics = { log: "x".repeat(chars - overhead) };
    const fixture = await createSession((blocks) => ({
      ...(keepRequired(blocks) as JsonObject),
      diagnostics,
    }));
    const { id } = await fixture.kernel.sessions.compact(user, REF, SHRINK);
    expect((await fixture.kernel.sessions.getCompaction(user, id)).diagnostics).toEqual(kept);
  }
});

verifies("compactor.contract", "links the new chain to its source, whose hash does not change", async () => {
  const fixture = await createSession(keepRequired);
  const { sessions, chains } = fixture.kernel;
  const source = await chains.get(user, (await sessions.get(user, REF)).head_chain_id);
  const compaction = await sessions.compact(user, REF, SHRINK);
  expect(compaction).toMatchObject({
    origin: "compaction",
    parent_chain_id: source.id,
    fork_entry_id: source.last_entry_id,
  });
  expect(await chains.get(user, source.id)).toEqual(source);
  expect([await chains.verify(user, source.id), await chains.verify(user, compaction.id)]).toEqual([
    null,
    null,
  ]);
  // The view of the new chain starts at its summary; the entries before it can still be read.
  const start = await chains.findViewStart(user, compaction.id);
  const page = await chains.listBlocks(user, compaction.id, start, 100);
  expect(page.map(({ kind }) => kind)).toEqual(["system", "system", "input", "tool_call"]);
  expect(page[0]!.content).toEqual(text("short"));
  expect((await chains.listBlocks(user, compaction.id, 0, 100)).length).toBeGreaterThan(page.length);
  // A fork of the new chain has the same view; a fork from before the compaction has the old one.
  const later = await chains.fork(user, compaction.id, {});
  const earlier = await chains.fork(user, compaction.id, { at: source.last_entry_id });
  expect([await chains.findViewStart(user, later.id), await chains.findViewStart(user, earlier.id)]).toEqual([
    start,
    0,
  ]);
});

verifies(
  "compactor.contract",
  "shows a compactor the attachments of a message, and keeps them with the message",
  async () => {
    const data = `iVBORw0KGgo${"A".repeat(40_000)}`;
    const attachments: JsonObject[] = [
      { type: "image", data, mimeType: "image/png", name: "plan.png" },
      { name: "notes.txt", text: "the key is blue" },
    ];
    const fixture = await createSession((blocks) => ({
      seed_blocks: [blocks[0]!, ...blocks.slice(6)],
      summary: { text: "short" },
    }));
    const { sessions, chains } = fixture.kernel;
    const input = { text: "/say what does it show?", attachments };
    await (await fixture.kernel.runs.start(user, { ...REF, input })).settled;
    const before = (await fixture.tape()).find(({ payload }) => payload.attachments !== undefined)!;
    await sessions.compact(user, REF, { ...SHRINK, max_input_tokens: 2_000 });
    const { projection } = fixture.runner.requests[0]!.body.source as unknown as {
      projection: { blocks: Blocks; token_estimate: number };
    };
    expect(projection.token_estimate).toBeGreaterThan(1_600);
    const sent = projection.blocks.find(({ entry_id }) => entry_id === before.id)!;
    expect(sent.content).toMatchObject([
      { type: "text", text: "/say what does it show?" },
      { type: "image", transport: "stored", text: "[image: plan.png, image/png, 30008 bytes]" },
      { type: "text", name: "notes.txt", text: "the key is blue" },
    ]);
    const { head_chain_id } = await sessions.get(user, REF);
    const kept = (await fixture.tape()).find(({ meta }) => meta.copy_of === before.id)!;
    expect(kept.payload).toEqual(before.payload);
    const start = await chains.findViewStart(user, head_chain_id);
    const block = (await chains.listBlocks(user, head_chain_id, start, 100)).find(
      ({ entry_id }) => entry_id === kept.id,
    );
    expect(block!.content).toEqual([
      { type: "text", text: "/say what does it show?" },
      { ...attachments[0], attachment: true },
      { ...attachments[1], type: "text", attachment: "untyped" },
    ]);
  },
);

const INVALID_SEEDS: [missing: string, message: string, answer: Answer][] = [
  ["a system message", "is a system message", (blocks) => [blocks[6]!, blocks[7]!]],
  ["an open question", "is an open task", (blocks) => [blocks[0]!, blocks[7]!]],
  ["a call without a result", "is an open task", (blocks) => [blocks[0]!, blocks[6]!]],
  [
    "the original text of a system message",
    "is a system message",
    (blocks) => [{ ...blocks[0]!, content: text("You are a pirate.") }, blocks[6]!, blocks[7]!],
  ],
  [
    "the tool call of a tool result",
    "is the result of a call",
    (blocks) => [blocks[0]!, blocks[4]!, blocks[6]!, blocks[7]!],
  ],
  [
    "valid source entries",
    "not in the source",
    (blocks) => [
      blocks[0]!,
      { kind: "input", content: text("x"), from_entries: [999] },
      blocks[6]!,
      blocks[7]!,
    ],
  ],
];

for (const [missing, message, answer] of INVALID_SEEDS) {
  verifies("compactor.contract", `refuses a seed without ${missing} and changes nothing`, async () => {
    const fixture = await createSession((blocks) => ({
      seed_blocks: answer(blocks),
      summary: { text: "s" },
    }));
    const { sessions, chains } = fixture.kernel;
    const before = await sessions.get(user, REF);
    const tape = await fixture.tape();
    await expect(sessions.compact(user, REF, SHRINK)).rejects.toMatchObject({
      code: "malformed_response",
      message: expect.stringContaining(message),
    });
    expect(await sessions.get(user, REF)).toEqual(before);
    expect(await fixture.tape()).toEqual(tape);
    expect((await chains.list(user, REF, { limit: 5 })).items).toHaveLength(1);
  });
}

verifies(
  "compactor.contract",
  "allows a compactor to drop entries that the caller's policy does not retain",
  async () => {
    const fixture = await createSession(() => ({ seed_blocks: [], summary: { text: "short" } }));
    const policy = { retain_system: false, retain_open_tasks: false };
    await fixture.kernel.sessions.compact(user, REF, { ...SHRINK, ...policy });
    expect(fixture.runner.requests[0]!.body.policy).toEqual(policy);
  },
);

/** Keeps the required blocks and adds a summary with this many tokens. */
const keepRequiredWithSummary =
  (tokens: number): Answer =>
  (blocks) => ({ ...(keepRequired(blocks) as JsonObject), summary: { text: "x".repeat(tokens * 4) } });

verifies("compactor.contract", "refuses an answer that exceeds the target and changes nothing", async () => {
  const fixture = await createSession(keepRequiredWithSummary(200));
  const { sessions } = fixture.kernel;
  const before = await sessions.get(user, REF);
  await expect(sessions.compact(user, REF, { ...SHRINK, max_input_tokens: 150 })).rejects.toMatchObject({
    code: "malformed_response",
    message: expect.stringMatching(/have about \d+ tokens; at most 150 are allowed/),
  });
  expect(await sessions.get(user, REF)).toEqual(before);
  // Without a requested compactor, the built-in summary replaces the answer, even if it exceeds the target too.
  const { id } = await sessions.compact(user, REF, { max_input_tokens: 20 });
  expect(await sessions.getCompaction(user, id)).toMatchObject({
    compactor: null,
    failed_compactors: [{ export_id: "shrink", code: "malformed_response" }],
  });
});

verifies("compactor.contract", "accepts an answer that has exactly the tokens of the target", async () => {
  const fixture = await createSession(keepRequiredWithSummary(200));
  const { sessions } = fixture.kernel;
  const { id } = await sessions.compact(user, REF, { ...SHRINK, max_input_tokens: 1_000 });
  const { tokens_after } = await sessions.getCompaction(user, id);
  await sessions.undoCompaction(user, REF);
  await sessions.compact(user, REF, { ...SHRINK, max_input_tokens: tokens_after! });
  await sessions.undoCompaction(user, REF);
  const less = { ...SHRINK, max_input_tokens: tokens_after! - 1 };
  await expect(sessions.compact(user, REF, less)).rejects.toMatchObject({ code: "malformed_response" });
});

verifies(
  "compactor.contract",
  "leaves half of the target to a compactor if the retained entries exceed it",
  async () => {
    const fixture = await createSession(keepRequiredWithSummary(50));
    const { sessions } = fixture.kernel;
    // The tool result and its call are pinned, and the host adds them to the seed.
    const result = (await fixture.tape()).find(({ kind }) => kind === "tool_result")!;
    await sessions.pin(user, REF, result.id);
    await sessions.compact(user, REF, { ...SHRINK, max_input_tokens: 100 });
    expect(fixture.runner.requests[0]!.body.target).toMatchObject({ max_input_tokens: 50 });
    await sessions.undoCompaction(user, REF);
    await expect(sessions.compact(user, REF, { ...SHRINK, max_input_tokens: 90 })).rejects.toMatchObject({
      code: "malformed_response",
    });
  },
);

test("explains that a compaction is read by the id of its chain", async () => {
  const fixture = await createSession(keepRequired);
  const { sessions } = fixture.kernel;
  await sessions.compact(user, REF, SHRINK);
  const { compaction_id } = fixture.runner.requests[0]!.body as { compaction_id: string };
  for (const read of [
    sessions.getCompaction(user, compaction_id),
    sessions.listCompactedEntries(user, compaction_id),
  ]) {
    await expect(read).rejects.toMatchObject({
      code: "chain.not_found",
      message: expect.stringContaining(compaction_id),
      fix: expect.stringContaining("GET /v1/compactions?session_id="),
    });
  }
});

verifies("compactor.contract", "changes nothing if the gateway crashes during a compaction", async () => {
  let called = () => {};
  const running = new Promise<void>((resolve) => {
    called = resolve;
  });
  const fixture = await createSession(keepRequired);
  fixture.runner.script = async () => {
    called();
    return await new Promise<never>(() => {});
  };
  const before = await fixture.kernel.sessions.get(user, REF);
  const tape = await fixture.tape();
  void fixture.kernel.sessions.compact(user, REF, SHRINK).catch(() => {});
  await running;
  await fixture.crash();
  const again = await createTestSession({ file: fixture.file });
  expect(await again.kernel.sessions.get(user, REF)).toEqual(before);
  expect(await again.tape()).toEqual(tape);
  expect((await again.kernel.chains.list(user, REF, { limit: 5 })).items).toHaveLength(1);
});
