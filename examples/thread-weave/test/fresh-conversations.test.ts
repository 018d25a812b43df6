/** Checks that the fresh conversations are suitable for a measurement. The compactor is not called here. */
import { expect, test } from "vitest";
import { createFreshConversations } from "./fresh-conversations.ts";

const conversations = createFreshConversations();

test("creates the same 20 conversations of more than 20,000 characters each time", () => {
  expect(conversations).toHaveLength(20);
  for (const { blocks } of conversations) expect(textsOf(blocks).join("").length).toBeGreaterThan(20_000);
  expect(createFreshConversations()).toEqual(conversations);
});

test("states the newest value of each fact in exactly one block", () => {
  for (const { blocks, facts } of conversations)
    for (const { question, value } of facts)
      expect(
        textsOf(blocks).filter((text) => text.includes(value)),
        `blocks that answer "${question}"`,
      ).toHaveLength(1);
});

test("each question shares a word with the line that states its fact", () => {
  for (const { blocks, facts } of conversations)
    for (const { question, value } of facts) {
      const lines = textsOf(blocks).flatMap((text) => text.split(/\n|(?<=[.?!]) /));
      const line = lines.find((text) => text.includes(value)) ?? "";
      const words = new Set(contentWords(line));
      expect(
        contentWords(question).filter((word) => words.has(word)),
        `words that "${question}" shares with "${line}"`,
      ).not.toEqual([]);
    }
});

function textsOf(blocks: (typeof conversations)[number]["blocks"]): string[] {
  return blocks.flatMap(({ content }) =>
    content.flatMap((part) => (typeof part.text === "string" ? [part.text] : [])),
  );
}

function contentWords(text: string): string[] {
  const common =
    "the a an of in is at on by for to be our we my it are with must may from until after and not";
  const asking =
    "what which when where who whom how much many does do did was were have has had that than as";
  const ignored = new Set(`${common} ${asking}`.split(" "));
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "" && !ignored.has(word));
}
