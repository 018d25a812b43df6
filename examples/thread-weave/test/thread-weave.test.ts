import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { checkManifest, runPlugin, startPlugin } from "@backplane/sdk/testing";
import { readManifest } from "@backplane/supply";
import { expect, test } from "vitest";
import { buildExample } from "../../../scripts/build-examples.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { type ChainBlock, sizeOf } from "../src/chain-block.ts";
import { compactChain, plugin } from "../src/thread-weave.ts";
import { createConversation } from "./conversations.ts";
import { createHeldOutConversations } from "./held-out-conversations.ts";

const folder = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(`${folder}/${path}`, "utf8");
const manifest = readManifest(read("vai-plugin.toml"));

const { blocks: conversation_blocks } = createConversation(7);
const BLOCKS = conversation_blocks.map((block, n) => ({ ...block, entry_id: n + 2 })) as ChainBlock[];

function createRequest(
  blocks: readonly ChainBlock[],
  pinned_items: readonly ChainBlock[] = [],
  max_input_tokens = 1_000,
) {
  return {
    compaction_id: "cmp_1",
    source: { chain_id: "ch_1", projection: { transport: "inline", blocks, pinned_items } },
    target: { max_input_tokens },
    policy: { retain_system: true, retain_open_tasks: true },
  } as never;
}

const compactToSeed = (request: never): ChainBlock[] => compactChain(request, 0.4).seed_blocks as never;

test("code, manifest and schema files agree", () => {
  expect(checkManifest(plugin, manifest, (path) => JSON.parse(read(path)))).toEqual([]);
});

verifies(
  "compactor.thread-weave",
  "keeps recent context unchanged and weaves the rest into blocks that list their entries",
  () => {
    const seed = compactToSeed(createRequest(BLOCKS));
    const woven = seed.filter(({ from_entries }) => from_entries !== undefined);
    const recent = seed.slice(woven.length);
    expect(recent.length).toBeGreaterThan(0);
    expect(recent).toEqual(BLOCKS.slice(-recent.length));
    expect(woven.length).toBeGreaterThan(1);
    const older = new Set(BLOCKS.slice(0, -recent.length).map(({ entry_id }) => entry_id));
    for (const { kind, from_entries } of woven) {
      expect(kind).toBe("input");
      expect(from_entries!.length).toBeGreaterThan(0);
      expect(from_entries!.every((id) => older.has(id))).toBe(true);
    }
    // Every line of a block occurs in the entries that the block lists; JSON escapes lines with quotation marks.
    const textOf = (id: number) => JSON.stringify(BLOCKS[id - 2]);
    for (const { content, from_entries } of woven) {
      const [, ...lines] = content[0]!.text!.split("\n");
      const sources = from_entries!.map(textOf).join();
      for (const line of lines.filter((text) => !text.includes('"')))
        expect(sources).toContain(line.slice(2).trim());
    }
    expect(JSON.stringify(seed.map(({ content }) => content)).length / 4).toBeLessThanOrEqual(1_050);
  },
);

verifies(
  "compactor.thread-weave",
  "returns the same seed for the same chain, and weaves a woven chain again",
  () => {
    const first = compactToSeed(createRequest(BLOCKS));
    expect(compactToSeed(createRequest(BLOCKS))).toEqual(first);
    // A woven block lists the original entries, or entries that the first compaction kept unchanged.
    const again = first.map((block, n) => ({ ...block, entry_id: 1_000 + n }));
    const second = compactToSeed(createRequest(again, [], 400));
    const ids = second.flatMap(({ from_entries = [] }) => from_entries);
    expect(ids.length).toBeGreaterThan(0);
    expect(
      ids.every((id) => first.some(({ from_entries = [] }) => from_entries.includes(id)) || id >= 1_000),
    ).toBe(true);
  },
);

verifies("compactor.thread-weave", "keeps system messages, pinned items and open tasks unchanged", () => {
  const text = (words: string) => [{ type: "text", text: words }];
  const system = { entry_id: 900, kind: "system", content: text("You are a coding agent.") };
  const summary = { entry_id: 901, kind: "system", name: "summary", content: text("An older summary.") };
  const open = { entry_id: 902, kind: "input", content: text(`What now? ${"more ".repeat(2_000)}`) };
  const pinned = BLOCKS.find(({ kind }) => kind === "response")!;
  const seed = compactToSeed(createRequest([summary, system, ...BLOCKS, open], [pinned]));
  for (const block of [system, pinned, open]) expect(seed).toContainEqual(block);
  expect(seed).not.toContainEqual(summary);
});

test.each([
  ["a short number", "Backups of Utrecht expire in 30 days.", "Backups of Utrecht expire in 45 days."],
  ["a negation", "We will deploy the importer on Friday.", "We will not deploy the importer on Friday."],
  [
    "a common word",
    "Restart the importer before the migration.",
    "Restart the importer after the migration.",
  ],
  ["an omitted word", "Clear the importer cache, not the mailer.", "Clear the importer cache, the mailer."],
])("keeps both of two sentences that differ only in %s", (_, earlier, later) => {
  const createExchange = (words: string, n: number): ChainBlock[] => [
    { entry_id: 800 + 2 * n, kind: "input", content: [{ type: "text", text: words }] },
    { entry_id: 801 + 2 * n, kind: "response", content: [{ type: "text", text: "Understood, noted." }] },
  ];
  const seed = compactToSeed(
    createRequest([...createExchange(earlier, 1), ...createExchange(later, 2), ...BLOCKS], [], 4_000),
  );
  const text = seed.map(({ content }) => content[0]?.text).join("\n");
  expect(text).toContain(later);
  // The number may be the only difference between two things, so the earlier sentence is not necessarily outdated.
  expect(text).toContain(earlier);
});

test("does not mistake a rule that begins with 'No' for small talk", () => {
  const instructions: ChainBlock[] = [
    "No retries towards Utrecht whatsoever.",
    "No, retries towards Leuven whatsoever.",
  ].map((text, n) => ({ entry_id: 800 + n, kind: "input", content: [{ type: "text", text }] }));
  const isInSeed = (tokens: number, word: string) =>
    JSON.stringify(
      compactToSeed(createRequest([...instructions, ...BLOCKS.slice(0, 60)], [], tokens)),
    ).includes(word);
  const smallestBudget = (word: string) =>
    [...Array(60).keys()].findIndex((n) => isInSeed(100 + 20 * n, word));
  expect(smallestBudget("Utrecht")).toBeGreaterThanOrEqual(0);
  expect(smallestBudget("Utrecht")).toBeLessThan(smallestBudget("Leuven"));
});

test("does not give a topic of a few lines its own block and title", () => {
  const blocks = createHeldOutConversations()[3]!.blocks.map((block, n) => ({ ...block, entry_id: n + 2 }));
  const woven = compactToSeed(createRequest(blocks as ChainBlock[])).filter(
    ({ from_entries }) => from_entries,
  );
  expect(woven.length).toBeGreaterThan(1);
  for (const { content } of woven) expect(content[0]!.text!.split("\n").length).toBeGreaterThan(5);
});

test("lists only the newest of the entries that state the same fact", () => {
  const text = "Backups of Utrecht expire in 30 days.";
  const createExchange = (entry_id: number): ChainBlock => ({
    entry_id,
    kind: "input",
    content: [{ type: "text", text }],
  });
  const seed = compactToSeed(createRequest([createExchange(800), createExchange(801), ...BLOCKS]));
  const woven = seed.filter(({ content }) => content[0]?.text?.includes(text));
  expect(woven).toHaveLength(1);
  expect(woven[0]!.content[0]!.text!.split(text)).toHaveLength(2);
  expect(woven[0]!.from_entries).toContain(801);
  expect(woven[0]!.from_entries).not.toContain(800);
});

test("counts images and PDFs as the gateway does, so that the compacted chain fits in the target", () => {
  const words = { type: "text", text: "see" };
  const size = (part: object) => sizeOf({ kind: "input", content: [words, { type: "x", ...part }] }) - 5;
  expect(size({ type: "image", mimeType: "image/png", text: "[image]", bytes: 400_000 })).toBe(6_400);
  expect(size({ type: "image", mimeType: "image/png", data: "A".repeat(16_000) })).toBe(6_400);
  const resource = { uri: "file:///a.pdf", mimeType: "application/pdf" };
  expect(size({ type: "resource", resource, bytes: 400_000, text: "[resource]" })).toBe(6 * 6_400);
  expect(size({ type: "audio", data: "A".repeat(16_000), text: "[audio]" })).toBe(9);
});

test("runs as a process from its bundle", async () => {
  await buildExample(folder);
  const run = await startPlugin(manifest.runtime.entrypoint, manifest, { cwd: folder });
  const outcome = await run.compact("thread_weave", createRequest(BLOCKS));
  expect(outcome.status).toBe("succeeded");
  const memory = await (await runPlugin(plugin)).compact("thread_weave", createRequest(BLOCKS));
  expect(outcome.result).toEqual(memory.result);
  run.close();
  await run.ended;
});
