/**
 * Compares how many facts of long conversations Thread Weave and the built-in summary keep in a compaction to the same
 * budget. The README of Thread Weave describes the method and its limits.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Block, type JsonObject, type KernelPlugin, tokenUsage } from "@backplane/contract";
import { plugin as react } from "@backplane/plugin-strategy-react";
import { runPlugin } from "@backplane/sdk/testing";
import { readManifest } from "@backplane/supply";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { plugin } from "../../../examples/thread-weave/src/thread-weave.ts";
import {
  type Conversation,
  createConversation,
  FACTS_EACH,
  type Fact,
} from "../../../examples/thread-weave/test/conversations.ts";
import { createFreshConversations } from "../../../examples/thread-weave/test/fresh-conversations.ts";
import {
  createHeldOutConversations,
  joinConversations,
} from "../../../examples/thread-weave/test/held-out-conversations.ts";
import { verifies } from "../../support/verifies.ts";

const CONVERSATIONS = 20;
const HELD_OUT_FACTS = 250;
const BUDGET = 1_000;

type SentenceRanking = (sentences: readonly string[]) => string[];

/**
 * Ranks sentences by how much they contain of what the gateway's prompt asks for (numbers, paths, names, decisions),
 * then by recency.
 */
const byPrompt: SentenceRanking = (sentences) => {
  const score = (sentence: string) =>
    Math.min(1, (sentence.match(/\d/g) ?? []).length) +
    Math.min(1, (sentence.match(/\w\/\w/g) ?? []).length) +
    Math.min(1, (sentence.match(/(?<=[a-z] )[A-Z][a-z]+/g) ?? []).length) +
    Math.min(1, (sentence.match(/\b(decided|settled|must|not|owns|expects|by)\b/g) ?? []).length);
  return [...new Set(sentences.toReversed())].sort((a, b) => score(b) - score(a));
};

/** Ranks sentences by the average rarity of their words (tf-idf). */
const byRarity: SentenceRanking = (sentences) => {
  const all = [...new Set(sentences)];
  const frequencies = new Map<string, number>();
  for (const sentence of all)
    for (const word of wordsOf(sentence)) frequencies.set(word, (frequencies.get(word) ?? 0) + 1);
  const score = (sentence: string) => {
    const words = [...wordsOf(sentence)];
    return (
      words.reduce((total, word) => total + Math.log(all.length / frequencies.get(word)!), 0) /
      Math.max(1, words.length)
    );
  };
  return all
    .map((text) => ({ text, score: score(text) }))
    .sort((a, b) => b.score - a.score)
    .map(({ text }) => text);
};

/** The newest sentences first, each once: what a truncated transcript keeps. */
const byRecency: SentenceRanking = (sentences) => [...new Set(sentences.toReversed())];

/** A provider that answers the request for a summary with the sentences of the conversation, ordered by `ranking`. */
function summarizer(name: string, ranking: SentenceRanking): KernelPlugin {
  return {
    name,
    version: "1.0.0",
    category: "llm-provider",
    subscriptions: () => ["llm.call.request"],
    async onEvent(event, ctx) {
      const messages = event.payload.messages as { content: unknown }[];
      const sentences = messages.slice(0, -1).flatMap(({ content }) => sentencesIn(textIn(content)));
      const text = ranking(sentences).join("\n");
      await ctx.emit("llm.call.response", { text, usage: { ...tokenUsage() }, request_id: event.id }, event);
    },
  };
}

const textIn = (content: unknown): string =>
  typeof content === "string"
    ? content
    : (content as { text?: string }[]).map(({ text = "" }) => text).join("\n");
const sentencesIn = (text: string): string[] =>
  text.split(/\n+|(?<=[.!?])\s+/).filter((line) => line.length > 3);
const wordsOf = (text: string): Set<string> =>
  new Set(text.toLowerCase().match(/[a-z0-9][a-z0-9._/-]{2,}/g) ?? []);

/**
 * The lines of the context that share the most words with the question. If there are several such lines, all of them
 * are returned, because a summary may have the newest sentence first or last.
 */
function findBestLines(context: readonly Block[], question: string): string[] {
  const question_words = wordsOf(question);
  let best: string[] = [];
  let most = 1;
  for (const line of context.flatMap(({ content }) => sentencesIn(textIn(content)))) {
    const shared = [...wordsOf(line)].filter((word) => question_words.has(word)).length;
    if (shared > most) [best, most] = [[line], shared];
    else if (shared === most) best.push(line);
  }
  return best;
}

const countRecalled = (context: readonly Block[], facts: readonly Fact[]): number =>
  facts.filter(({ question, value }) => findBestLines(context, question).some((line) => line.includes(value)))
    .length;

async function createKernelWithProvider(provider: KernelPlugin): Promise<TestKernel> {
  const fixture = await createTestKernel({ plugins: [provider, react] });
  await fixture.kernel.config.set(admin, {
    [`providers.${provider.name}.plugin`]: provider.name,
    provider: provider.name,
  });
  const read = (path: string) =>
    readFileSync(fileURLToPath(new URL(`../../../examples/thread-weave/${path}`, import.meta.url)), "utf8");
  await fixture.bind(
    readManifest(read("vai-plugin.toml")),
    {},
    {
      "schemas/thread_weave_config.json": JSON.parse(read("schemas/thread_weave_config.json")) as JsonObject,
    },
  );
  const run = await runPlugin(plugin);
  fixture.runner.script = async ({ request }) => {
    const { source, target, policy } = request.body as JsonObject;
    const { result } = await run.compact("thread_weave", { source, target, policy } as never);
    return ok(result as unknown as JsonObject);
  };
  return fixture;
}

/** Returns the context after a compaction by `compactor`, which may exceed the budget by at most 2 %. */
async function compact(
  { kernel }: TestKernel,
  session_id: string,
  { blocks }: Conversation,
  compactor: string,
): Promise<Block[]> {
  const { head_chain_id } = await kernel.sessions.create(user, { session_id });
  for (let n = 0; n < blocks.length; n += 100)
    await kernel.chains.addBlocks(user, head_chain_id, blocks.slice(n, n + 100));
  const { id } = await kernel.sessions.compact(user, { session_id }, { compactor, max_input_tokens: BUDGET });
  const { tokens_before, tokens_after } = await kernel.sessions.getCompaction(user, id);
  expect(tokens_before).toBeGreaterThan(4 * BUDGET);
  expect(tokens_after).toBeLessThanOrEqual(BUDGET * 1.02);
  return await kernel.chains.listBlocks(user, id, await kernel.chains.findViewStart(user, id), 1_000);
}

/** Counts the facts that are recalled from each context: the whole conversation, Thread Weave's and the model's summaries. */
async function measure(conversations: readonly Conversation[]) {
  const recency = await createKernelWithProvider(summarizer("by-recency", byRecency));
  const prompt = await createKernelWithProvider(summarizer("by-prompt", byPrompt));
  const rarity = await createKernelWithProvider(summarizer("by-rarity", byRarity));
  const counts = { asked: 0, before: 0, thread_weave: 0, recency: 0, prompt: 0, rarity: 0 };
  for (const [n, conversation] of conversations.entries()) {
    const { facts, blocks } = conversation;
    counts.asked += facts.length;
    counts.before += countRecalled(blocks, facts);
    counts.thread_weave += countRecalled(await compact(rarity, `w${n}`, conversation, "thread_weave"), facts);
    counts.prompt += countRecalled(await compact(prompt, `p${n}`, conversation, "model"), facts);
    counts.rarity += countRecalled(await compact(rarity, `x${n}`, conversation, "model"), facts);
    counts.recency += countRecalled(await compact(recency, `r${n}`, conversation, "model"), facts);
  }
  return counts;
}

type Counts = Awaited<ReturnType<typeof measure>>;

function expectMoreRecalled(counts: Counts, rankings: readonly ("recency" | "prompt" | "rarity")[]): void {
  // `findBestLines` finds nearly all facts in the uncompacted conversation, so a missing fact was lost by the
  // compaction.
  expect(counts.before).toBeGreaterThanOrEqual(0.9 * counts.asked);
  for (const ranking of rankings) expect(counts.thread_weave, ranking).toBeGreaterThan(counts[ranking]);
}

verifies(
  "compactor.thread-weave",
  "recalls more facts of 20 conversations than the built-in summary at the same budget",
  async () => {
    const counts = await measure(Array.from({ length: CONVERSATIONS }, (_, n) => createConversation(n + 1)));
    console.log(`coding conversations: ${JSON.stringify(counts)}`);
    expect(counts.asked).toBe(CONVERSATIONS * FACTS_EACH);
    expectMoreRecalled(counts, ["recency", "prompt", "rarity"]);
  },
);

// Nearly all facts of a single held-out conversation fit into the budget, so Thread Weave and the summary by the rarest
// words recall the same number within one or two. The test compares it with the other two summaries only.
verifies(
  "compactor.thread-weave",
  "recalls more facts of 20 held-out conversations than summaries that rank sentences by recency or by the prompt",
  async () => {
    const conversations = createHeldOutConversations();
    expect(conversations).toHaveLength(CONVERSATIONS);
    const counts = await measure(conversations);
    console.log(`held-out conversations: ${JSON.stringify(counts)}`);
    expect(counts.asked).toBe(HELD_OUT_FACTS);
    expectMoreRecalled(counts, ["recency", "prompt"]);
  },
);

verifies(
  "compactor.thread-weave",
  "recalls more facts of joined held-out conversations than each built-in summary",
  async () => {
    const counts = await measure(joinConversations(createHeldOutConversations()));
    console.log(`joined held-out conversations: ${JSON.stringify(counts)}`);
    expect(counts.asked).toBe(3 * HELD_OUT_FACTS);
    expectMoreRecalled(counts, ["recency", "prompt", "rarity"]);
  },
);

verifies(
  "compactor.thread-weave",
  "recalls more facts of joined fresh conversations than each built-in summary",
  async () => {
    const conversations = createFreshConversations();
    expect(conversations).toHaveLength(CONVERSATIONS);
    const counts = await measure(joinConversations(conversations));
    console.log(`joined fresh conversations: ${JSON.stringify(counts)}`);
    expectMoreRecalled(counts, ["recency", "prompt", "rarity"]);
  },
);
