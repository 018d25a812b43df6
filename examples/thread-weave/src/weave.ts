/**
 * Condenses older history without a model. Sentences are rated by their information: rare words, numbers, paths, names
 * and decisions raise the score; repetition and small talk lower it. The best sentences that fit are grouped by the
 * topic of their exchange. Each topic becomes one block that lists the entries it came from. The same input always
 * gives the same output.
 */
import { type ChainBlock, sizeOf, textOf } from "./chain-block.ts";

export interface WovenHistory {
  blocks: ChainBlock[];
  titles: string[];
  /** How many entries the blocks came from. */
  sources: number;
}

interface Sentence {
  text: string;
  words: ReadonlySet<string>;
  from: readonly number[];
  exchange: number;
  order: number;
  score: number;
}

interface Topic {
  words: Map<string, number>;
  exchanges: Set<number>;
  lines: number;
}

const MIN_CHARS = 12;
const MAX_CHARS = 400;
const TITLE_WORDS = 2;
/** A block and its title cost as much as a short sentence, so fewer lines do not become a separate topic. */
const MIN_LINES = 5;

/** Words of sentences in which people decide, require, promise or find something. */
const DECISIVE =
  /\b(decided?|agreed|must|never|always|only|instead|because|prefers?|requires?|needs?|uses?|owner|owns|deadline|due|root cause|fixed|fails?|renamed|moved|lives|listens|password|version|limit|default|called|named|belongs|runs on|todo|open question|blocked|promised)\b/i;
/** Paths, identifiers, versions, times, numbers with a unit, and quoted text. */
const SPECIFIC = /[\w.-]*[/_][\w./-]+|\b[a-z]+[A-Z]\w*|\b\w*\d[\w.:%-]*|`[^`]+`|"[^"]{2,60}"/g;
const NAME = /(?<=[a-z,;:] )[A-Z][a-z]{2,}/;
/** Interjections end with punctuation: "No, thanks" is small talk, "No retries in the importer" is a rule. */
const SMALL_TALK =
  /^((ok|okay|great|good|sure|hello|hi|yes|no|alright|perfect|nice|cool)(?=[,.!;:]|$)|(thanks|thank you|let me|i will|i'll|sounds)\b)/i;

export function weave(older: readonly ChainBlock[], room: number): WovenHistory {
  const sentences = splitSentences(older);
  setScores(sentences);
  let chosen = chooseSentences(sentences, room);
  let woven = toBlocks(chosen);
  // The choice does not count the titles of the topics, so the weakest sentences may have to go.
  for (
    let excess = measureExcess(woven, room);
    chosen.length > 0 && excess > 0;
    excess = measureExcess(woven, room)
  ) {
    const ranked = chosen.toSorted((a, b) => b.score - a.score);
    while (excess > 0 && ranked.length > 0) excess -= costOf(ranked.pop()!);
    chosen = ranked.sort((a, b) => a.order - b.order);
    woven = toBlocks(chosen);
  }
  return woven;
}

function measureExcess({ blocks }: WovenHistory, room: number): number {
  return blocks.reduce((total, block) => total + sizeOf(block), 0) - room;
}

/** The characters of a sentence as a line of a block. */
function costOf({ text }: Sentence): number {
  return JSON.stringify(text).length + 2;
}

function toBlocks(chosen: readonly Sentence[]): WovenHistory {
  const blocks: ChainBlock[] = [];
  const titles: string[] = [];
  for (const { exchanges, words } of groupByTopic(chosen)) {
    const lines = chosen.filter(({ exchange }) => exchanges.has(exchange));
    const title = makeTitle(words);
    const text = [`Earlier, on ${title}:`, ...lines.map((line) => `- ${line.text}`)].join("\n");
    const from_entries = [...new Set(lines.flatMap(({ from }) => from))].sort((a, b) => a - b);
    blocks.push({ kind: "input", content: [{ type: "text", text }], from_entries });
    titles.push(title);
  }
  return { blocks, titles, sources: new Set(blocks.flatMap(({ from_entries }) => from_entries!)).size };
}

/** Splits blocks into sentences. An exchange is a message from the user and everything until the next one. */
function splitSentences(blocks: readonly ChainBlock[]): Sentence[] {
  const sentences: Sentence[] = [];
  let exchange = 0;
  for (const block of blocks) {
    if (block.kind === "input") exchange++;
    const from = block.from_entries ?? (block.entry_id === undefined ? [] : [block.entry_id]);
    if (from.length === 0) continue;
    for (const part of textOf(block).split(/\n+|(?<=[.!?])\s+/)) {
      const text = part
        .replace(/^[-*\s]+/, "")
        .replace(/\s+/g, " ")
        .trim()
        .slice(0, MAX_CHARS);
      if (text.length < MIN_CHARS || text.startsWith("Earlier, on ")) continue;
      const words = wordsOf(text);
      if (words.size < 2) continue;
      sentences.push({ text, words, from, exchange, order: sentences.length, score: 0 });
    }
  }
  return sentences;
}

/**
 * Rare words, specific details and decisions raise the score of a sentence; small talk, questions and other lines of
 * the same shape, such as those of a log, lower it.
 */
function setScores(sentences: readonly Sentence[]): void {
  const word_counts = new Map<string, number>();
  const shapes = new Map<string, number>();
  const texts = new Set<string>();
  for (const { text, words } of sentences) {
    shapes.set(shapeOf(text), (shapes.get(shapeOf(text)) ?? 0) + 1);
    if (texts.has(text)) continue;
    texts.add(text);
    for (const word of words) word_counts.set(word, (word_counts.get(word) ?? 0) + 1);
  }
  for (const sentence of sentences) {
    const { text, words } = sentence;
    let rarity = 0;
    for (const word of words) rarity += Math.log((texts.size + 1) / word_counts.get(word)!);
    const specific = (text.match(SPECIFIC) ?? []).length > 0 ? 1 : 0;
    const named = NAME.test(text) ? 1 : 0;
    const decisive = DECISIVE.test(text) ? 1 : 0;
    const talk = SMALL_TALK.test(text) ? 1 : 0;
    const question = text.endsWith("?") ? 1 : 0;
    const signals = 1 + 0.15 * (specific + named + decisive - talk - question);
    const repeated = 1 + Math.log(shapes.get(shapeOf(text))!);
    sentence.score = ((rarity / words.size) * signals) / repeated;
  }
}

/** The text with a placeholder for each number, path and name. */
function shapeOf(text: string): string {
  return text
    .replace(/\S*\/\S*/g, "/")
    .replace(/\S*\d\S*/g, "0")
    .replace(/\b[A-Z]\w*/g, "A");
}

/** The best sentences that fit, each once, in their original order. */
function chooseSentences(sentences: readonly Sentence[], room: number): Sentence[] {
  // Only the same words in the same order are a repetition: a correction may differ in no more than a "not".
  const newest = new Map(sentences.map((sentence) => [repetitionKey(sentence.text), sentence]));
  const ranked = [...newest.values()].sort((a, b) => b.score - a.score || b.order - a.order);
  const chosen: Sentence[] = [];
  let remaining = room;
  for (const sentence of ranked) {
    const cost = costOf(sentence);
    if (sentence.score <= 0 || cost > remaining) continue;
    chosen.push(sentence);
    remaining -= cost;
  }
  return chosen.sort((a, b) => a.order - b.order);
}

/** The text in lower case, with single spaces and without the punctuation around words. */
function repetitionKey(text: string): string {
  return text
    .toLowerCase()
    .split(/\s+/)
    .map((word) => word.replace(/^["'(]+|["').,;:!?]+$/g, ""))
    .join(" ");
}

/**
 * Groups exchanges by shared words. Every exchange begins as a topic; the smallest topic joins the nearest other
 * one until each has enough lines to be worth a block and a title.
 */
function groupByTopic(chosen: readonly Sentence[]): Topic[] {
  const topics = [...Map.groupBy(chosen, ({ exchange }) => exchange)].map(([exchange, sentences]): Topic => {
    const words = new Map<string, number>();
    for (const word of new Set(sentences.flatMap((sentence) => [...sentence.words]))) words.set(word, 1);
    return { words, exchanges: new Set([exchange]), lines: sentences.length };
  });
  while (topics.length > 1) {
    const smallest = topics.reduce((least, topic) => (topic.lines < least.lines ? topic : least));
    if (smallest.lines >= MIN_LINES) break;
    topics.splice(topics.indexOf(smallest), 1);
    merge(smallest, findNearest(smallest, topics));
  }
  return topics.sort((a, b) => Math.min(...a.exchanges) - Math.min(...b.exchanges));
}

/** The topic that shares the most words for its size; among equals, the one that is closest in time. */
function findNearest(topic: Topic, others: readonly Topic[]): Topic {
  let best = others[0]!;
  let most = -1;
  let closest = Number.POSITIVE_INFINITY;
  for (const other of others) {
    let shared = 0;
    for (const word of topic.words.keys()) if (other.words.has(word)) shared++;
    const likeness = shared / Math.sqrt(other.words.size);
    if (likeness < most) continue;
    const distance = measureDistance(topic, other);
    if (likeness > most || distance < closest) [best, most, closest] = [other, likeness, distance];
  }
  return best;
}

function measureDistance(topic: Topic, other: Topic): number {
  let least = Number.POSITIVE_INFINITY;
  for (const a of topic.exchanges) for (const b of other.exchanges) least = Math.min(least, Math.abs(a - b));
  return least;
}

function merge(from: Topic, into: Topic): void {
  for (const [word, count] of from.words) into.words.set(word, (into.words.get(word) ?? 0) + count);
  for (const exchange of from.exchanges) into.exchanges.add(exchange);
  into.lines += from.lines;
}

function makeTitle(words: ReadonlyMap<string, number>): string {
  const ranked = [...words].sort(
    (a, b) => b[1] - a[1] || b[0].length - a[0].length || (a[0] < b[0] ? -1 : 1),
  );
  return ranked
    .slice(0, TITLE_WORDS)
    .map(([word]) => word)
    .join(", ");
}

const COMMON = new Set(
  "the and for that this with from have has was were are you your our not but can will its into then than when what which there here just like also been about after before they them their would could should does did done some any all one two now get got let see more very please okay sure".split(
    " ",
  ),
);

function wordsOf(text: string): Set<string> {
  const words = text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}._/-]*/gu) ?? [];
  return new Set(
    words.map((word) => word.replace(/[._/-]+$/, "")).filter((word) => word.length > 2 && !COMMON.has(word)),
  );
}
