/**
 * The fresh set: 20 conversations from fixed seeds, about subjects that the held-out set does not have. Many questions
 * use other words than the statements. Some facts change; their questions ask for the newest value.
 *
 * Notation of the scripts in fresh-scripts.txt, one item per line:
 *
 *     ## subject; turns=...; burst=...; tool=...; row=...   starts a conversation; a burst is the longest run of turns
 *                                                           in one thread before another thread comes up
 *     people: things: places:                               words for the slots {who}, {thing}, {other} and {place}
 *     . text     small talk about this subject, or about the thread if it follows "> name"
 *     , text     small talk by the assistant about this subject
 *     * text     a digression
 *     % text     a detail that nobody asks for
 *     > name     starts a thread
 *     U|A|T statement <value> ?? question                   a fact, stated by the user, the assistant or a tool result
 *     !U|A|T statement <value>                              a later correction of the preceding fact
 */
import { readFileSync } from "node:fs";
import type { Block } from "@backplane/contract";
import type { Conversation, Fact } from "./conversations.ts";

/** Written without looking at the compactor. A change after a measurement would make the set a tuning set. */
const FRESH_SCRIPTS = readFileSync(new URL("./fresh-scripts.txt", import.meta.url), "utf8");

type Speaker = "U" | "A" | "T";

interface Statement {
  speaker: Speaker;
  said: string;
}

interface Thread {
  name: string;
  talk: string[];
  facts: { statements: Statement[]; fact: Fact }[];
}

interface Script {
  subject: string;
  turns: number;
  burst: number;
  tool: string;
  row: string;
  words: Record<string, string[]>;
  talk: string[];
  answers: string[];
  digressions: string[];
  details: string[];
  threads: Thread[];
}

type Random = (below: number) => number;

const USER_TALK = [
  "Sorry, I was on the phone with {who}.",
  "Where were we?",
  "Can you put the {thing} into a short paragraph that I can forward to {who}?",
  "I keep forgetting what we said about the {thing}, never mind.",
  "That is more or less what I had in mind.",
  "Give me two versions, a friendly one and a strict one.",
  "Hold on, {who} has just walked in.",
  "What do other people do about the {other}?",
  "I don't want to make a fuss about the {thing}, it is only the {num}th time.",
  "Is there anything about the {other} that I overlooked?",
  "Let me type this on the phone, so excuse the spelling.",
  "Back again, with tea.",
  "The {thing} has been on my mind since {day}.",
  "I asked {who}, who asked somebody else, who is on holiday.",
  "Shorter, please.",
  "Hmm, the second version was better.",
  "Suppose the {thing} falls through, what then?",
  "I have a headache and the {other} is part of it.",
  "To be fair, {who} did warn me about the {thing}.",
  "We tried that with the {other} a while ago and gave up after {num} days.",
  "Remind me why we care about the {thing} at all.",
  "You can skip the pleasantries in the letter to {who}.",
  "I'm going through my inbox now, {num} unread.",
  "Between us, {who} is not easy to work with.",
  "Any idea how to say that without offending {who}?",
  "I like it. Change nothing.",
  "It is {time} already and I have not even begun with the {other}.",
  "My guess was {num}, {who} said {num}, so somebody is wrong.",
  "Okay, next.",
  "Could be worse, the {thing} could be on fire.",
  "I will be away on {day}, but reachable.",
  "Let's see whether {who} even notices the {thing}.",
  "Do we have a picture of the {other} somewhere?",
  "That reminds me of the {thing}, but it can wait.",
  "Please be honest, is my plan for the {other} silly?",
  "Nobody told me about the {thing} until {day}, typical.",
];
const ASSISTANT_TALK = [
  "Of course.",
  "Here is a first draft for {who}, feel free to cut it.",
  "I kept the tone light and left the {thing} out.",
  "As far as I can tell, the {other} does not affect this.",
  "There are two options for the {thing}, and the simpler one is usually enough.",
  "I would begin with the {thing}, since the {other} depends on it.",
  "It may help to ask {who} directly.",
  "I have added the {other} to the open points.",
  "If the {thing} is late, {num} minutes of slack should cover it.",
  "That sounds reasonable to me.",
  "A checklist for the {thing} would have about {num} entries.",
  "You could also leave the {other} as it is and look again on {day}.",
  "I did not find anything unusual about the {thing}.",
  "In that case I suggest a short message to {who} before {time}.",
  "Let me know if {who} sees it differently.",
  "The usual approach is to settle the {other} first and the {thing} afterwards.",
  "I can write it up as a table when you need one.",
  "That is a fair question, and the answer depends on the {other}.",
  "My suggestion would be to keep the {thing} small and see how {who} reacts.",
  "Understood, I leave the {other} alone.",
  "One risk remains: the {thing} could clash with the {other} on {day}.",
  "I shortened it by about {num} words.",
  "Happy to help, and good luck with {who}.",
  "Many people underestimate the {other}, so a bit of patience is in order.",
  "Here is the same text once more, with the {thing} moved to the end.",
  "I would not worry about it before {day}.",
  "It is hard to say from here, {who} would have to look at the {thing}.",
  "The two notes about the {other} disagree slightly, I used the later one.",
  "Sure, I can wait.",
  "Take your time with the {thing}.",
];
/** Short sentences before a statement, so that its place in a paragraph looks natural. */
const LEAD_INS = [
  "Before I forget.",
  "Oh, one more thing.",
  "Right.",
  "For the record.",
  "Something else.",
  "I checked.",
];
/** Words before some sentences of the user, so that talk seldom repeats itself. */
const OPENERS = [
  "Well",
  "Anyway",
  "To my surprise",
  "So far",
  "If I am not mistaken",
  "Apparently",
  "As usual",
];
const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

export function createFreshConversations(): Conversation[] {
  return parseScripts(FRESH_SCRIPTS).map((script, n) => performScript(script, randomFrom(7_001 + 13 * n)));
}

function parseScripts(text: string): Script[] {
  const scripts: Script[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, mark, rest = ""] = /^(##|people:|things:|places:|[.,*%>]|!?[UAT]) (.+)$/.exec(line) ?? [];
    if (mark === undefined) throw new Error(`Not a line of a script: ${line}`);
    if (mark === "##") scripts.push(parseHead(rest));
    const script = scripts.at(-1)!;
    const thread = script.threads.at(-1);
    if (mark.endsWith(":")) script.words[mark.slice(0, -1)] = rest.split(", ");
    else if (mark === ".") (thread ?? script).talk.push(rest);
    else if (mark === ",") script.answers.push(rest);
    else if (mark === "*") script.digressions.push(rest);
    else if (mark === "%") script.details.push(rest);
    else if (mark === ">") script.threads.push({ name: rest, talk: [], facts: [] });
    else if (mark !== "##") addStatement(thread!, mark, rest);
  }
  return scripts;
}

function parseHead(head: string): Script {
  const [subject = "", ...parts] = head.split("; ");
  const options = new Map(parts.map((part) => part.split(/=(.*)/).slice(0, 2) as [string, string]));
  return {
    subject,
    turns: Number(options.get("turns")),
    burst: Number(options.get("burst")),
    tool: options.get("tool")!,
    row: options.get("row")!,
    words: {},
    talk: [],
    answers: [],
    digressions: [],
    details: [],
    threads: [],
  };
}

function addStatement({ facts }: Thread, mark: string, rest: string): void {
  const [marked = "", question = ""] = rest.split(" ?? ");
  const value = /<(.+)>/.exec(marked)?.[1];
  if (value === undefined) throw new Error(`A statement without a value: ${rest}`);
  const statement: Statement = { speaker: mark.at(-1) as Speaker, said: marked.replace(`<${value}>`, value) };
  if (!mark.startsWith("!")) {
    facts.push({ statements: [statement], fact: { question, value } });
    return;
  }
  const corrected = facts.at(-1)!;
  corrected.statements.push(statement);
  corrected.fact.value = value;
}

function performScript(script: Script, random: Random): Conversation {
  const facts = script.threads.flatMap((thread) => thread.facts.map(({ fact }) => fact));
  const pick = <T>(items: readonly T[]): T => items[random(items.length)]!;
  const fillSlot = (slot: string): string => {
    if (slot === "num") return String(2 + random(95));
    if (slot === "day") return pick(DAYS);
    if (slot === "time")
      return `${7 + random(14)}:${pick(["00", "05", "10", "15", "20", "30", "40", "45", "50"])}`;
    if (slot === "who") return pick(script.words.people!);
    return pick(slot === "place" ? script.words.places! : script.words.things!);
  };
  const fill = (template: string): string => {
    const text = template.replace(/\{(num|day|time|who|place|thing|other)\}/g, (_, slot) => fillSlot(slot));
    if (template.includes("{other}") && script.words.things!.some((thing) => text.split(thing).length > 2))
      return fill(template);
    // Talk must not answer a question by accident.
    if (facts.some(({ value }) => text.includes(value))) return fill(template);
    return text[0]!.toUpperCase() + text.slice(1);
  };
  const userTalk = (thread: Thread): string => {
    const kind = random(20);
    if (kind === 0) return fill(pick(script.digressions));
    const words = fill(
      pick(kind < 3 ? [...thread.talk, ...script.talk] : kind < 9 ? script.talk : USER_TALK),
    );
    return words.startsWith("The ") && random(3) === 0 ? `${pick(OPENERS)}, t${words.slice(1)}` : words;
  };
  const assistantTalk = (): string => fill(pick(random(4) === 0 ? script.answers : ASSISTANT_TALK));
  const makeDistinct = (lines: number, make: () => string): string[] => [
    ...new Set(Array.from({ length: lines }, make)),
  ];
  const insert = (lines: string[], said: readonly string[], lead_in: boolean): string[] => {
    for (const words of said)
      lines.splice(
        random(lines.length + 1),
        0,
        lead_in && random(4) === 0 ? `${pick(LEAD_INS)} ${words}` : words,
      );
    return lines;
  };

  const order = orderThreads(script, random);
  const plan = planStatements(script, order, random);
  const blocks: Block[] = [];
  const text = (words: string) => [{ type: "text" as const, text: words }];
  for (const [turn, at] of order.entries()) {
    const thread = script.threads[at]!;
    const statementsBy = (speaker: Speaker) =>
      plan[turn]!.filter((statement) => statement.speaker === speaker).map(({ said }) => said);

    const question_lines = insert(
      makeDistinct(1 + random(7), () => userTalk(thread)),
      statementsBy("U"),
      true,
    );
    blocks.push({ kind: "input", content: text(joinSentences(question_lines, random)) });

    const result_statements = statementsBy("T");
    if (result_statements.length > 0 || random(5) === 0) {
      const tool_call_id = `fresh_${turn}`;
      const input = { query: `${thread.name} ${pick(script.words.things!)}` };
      blocks.push({ kind: "tool_call", content: [], tool_call_id, name: script.tool, input });
      const rows = makeDistinct(2 + random(9), () => fill(script.row));
      const result = insert(rows, result_statements, false).join("\n");
      blocks.push({ kind: "tool_result", content: text(result), tool_call_id, is_error: false });
    }

    const answered = insert(makeDistinct(2 + random(7), assistantTalk), statementsBy("A"), false);
    const answer =
      random(6) === 0 ? answered.map((line) => `- ${line}`).join("\n") : joinSentences(answered, random);
    blocks.push({ kind: "response", content: text(answer) });
  }
  return { blocks, facts };
}

/** One paragraph, or two when there is enough to say. */
function joinSentences(sentences: readonly string[], random: Random): string {
  const half = sentences.length > 4 && random(3) === 0 ? 2 + random(2) : sentences.length;
  return [sentences.slice(0, half), sentences.slice(half)]
    .filter((part) => part.length > 0)
    .map((part) => part.join(" "))
    .join("\n\n");
}

/** The thread of each turn. Every thread gets enough turns for a statement and its correction. */
function orderThreads({ subject, turns, burst, threads }: Script, random: Random): number[] {
  const order: number[] = [];
  const counts = threads.map(() => 0);
  let current = random(threads.length);
  while (order.length < turns) {
    const length = Math.min(1 + random(burst), turns - order.length);
    for (let n = 0; n < length; n++) order.push(current);
    counts[current]! += length;
    const others = threads.flatMap((_, n) => (n === current ? [] : [n]));
    const rarest = others.reduce((a, b) => (counts[b]! < counts[a]! ? b : a));
    current = random(3) === 0 ? rarest : others[random(others.length)]!;
  }
  if (Math.min(...counts) < 4) throw new Error(`A thread of "${subject}" has too few turns.`);
  return order;
}

/** The statements of each turn. Now and then the user mentions a fact while another thread is discussed. */
function planStatements(
  { threads, details }: Script,
  order: readonly number[],
  random: Random,
): Statement[][] {
  const plan: Statement[][] = order.map(() => []);
  for (const [at, { facts }] of threads.entries()) {
    const thread_turns = order.flatMap((thread, turn) => (thread === at ? [turn] : []));
    for (const { statements } of facts) {
      const [first, correction] = statements as [Statement, Statement?];
      if (correction === undefined) {
        const elsewhere = first.speaker === "U" && random(8) === 0;
        plan[elsewhere ? random(order.length) : thread_turns[random(thread_turns.length)]!]!.push(first);
        continue;
      }
      const when = random(thread_turns.length - 1);
      plan[thread_turns[when]!]!.push(first);
      plan[thread_turns[when + 1 + random(thread_turns.length - when - 1)]!]!.push(correction);
    }
  }
  for (const said of details)
    plan[random(order.length)]!.push({ speaker: random(4) === 0 ? "A" : "U", said });
  return plan;
}

/** Returns whole numbers below a limit, always the same ones for a seed (xorshift). */
function randomFrom(seed: number): Random {
  let state = Math.imul(seed, 0x85ebca6b) | 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return Math.floor(((state >>> 0) / 2 ** 32) * below);
  };
}
