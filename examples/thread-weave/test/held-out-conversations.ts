/**
 * The held-out set: 20 conversations about subjects other than coding, always the same. They differ in the number of
 * threads, in how the threads alternate, in digressions and in where a fact is stated. Some facts change later; their
 * questions ask for the newest value.
 *
 * Notation of the scripts in held-out-scripts.txt, one item per line:
 *
 *     # subject; order=...; turns=...; tool=...; row=...   starts a conversation
 *     nouns: and names:                                    words for the slots {x} and {p}
 *     - text     small talk about it                        + text     a digression
 *     = text     a detail that nobody asks for
 *     @ name     starts a thread; its own talk follows as "- text"
 *     u|a|t|l|c statement [value] ?? question              a fact, stated by the user, by the assistant, in a tool
 *                                                          result, in a list or in code of the assistant
 *     ~u|a|t|l|c statement [value]                         a later correction of the preceding fact
 */
import { readFileSync } from "node:fs";
import type { Block } from "@backplane/contract";
import type { Conversation, Fact } from "./conversations.ts";

/** Written without looking at the compactor. A change after a measurement would make the set a tuning set. */
const SCRIPTS = readFileSync(new URL("./held-out-scripts.txt", import.meta.url), "utf8");

type Location = "u" | "a" | "t" | "l" | "c";

interface Statement {
  location: Location;
  said: string;
}

interface Thread {
  talk: string[];
  facts: { first: Statement; correction?: Statement; fact: Fact }[];
}

interface Script {
  options: Record<string, string>;
  nouns: string[];
  names: string[];
  digressions: string[];
  details: string[];
  threads: Thread[];
}

/** Talk that fits every subject. */
const TALK = [
  "Could you go over the {x} again and tell me what is missing?",
  "I am not sure about the {x} yet, maybe we come back to it on {d}.",
  "{p} asked about the {x} and I had no good answer.",
  "Let me put the {x} aside for a moment, it depends on other things.",
  "You are right about the {x}, I had mixed up two pages of my notes.",
  "That leaves {n} open points, most of them about the {x}.",
  "I wrote to {p} on {d} and wait for an answer about the {x}.",
  "The {x} is done as far as I can see.",
  "Here is what I understood: the {x} first, then whatever {p} needs.",
  "If the {x} takes longer than {n} minutes we can skip it.",
  "Honestly the {x} worries me less than the {y}.",
  "We had the same question about the {y} some weeks ago and solved it without {p}.",
  "I would compare the {x} with the {y} before we decide anything.",
  "My notes say {n} for the {x}, but that was a guess.",
  "Please remind me to look at the {y} after the {x}.",
  "There are {n} ways to handle the {x} and I like none of them.",
  "{p} and I talked about the {y} for a while, without a result.",
  "Good point, I add the {x} to the list as number {n}.",
  "No change for the {y} since {d}.",
  "It would be nice to finish the {x} together with the {y}.",
  "Sorry for the long message, the {x} is a tedious subject.",
  "I do not expect trouble with the {y}, although {p} does.",
  "Does the {x} have to wait for {p}, or can we begin on {d}?",
  "The {y} is probably fine, {n} out of {n} looked good.",
  "Thank you, that helps with the {x}.",
  "Hm, let me think.",
  "Fine with me.",
  "I read all of it twice and the part about the {y} is still unclear to me.",
  "What would you do about the {x} in my place?",
  "I can think of two reasons to begin with the {x} and one against it.",
  "Somebody will complain about the {y} whatever we choose.",
  "From my side the {x} can stay as it is.",
  "Let us talk about the {y} once {p} is back.",
  "Noted.",
  "I looked up the {x} and found nothing that contradicts us.",
  "The {y} was easier than I had feared.",
  "In short, the {x} needs another look and everything else follows from it.",
  "Please do not spend more than {n} minutes on the {y}.",
  "Was it {p} who brought up the {x}, or did I dream that?",
  "I drew a sketch of the {x} and threw it away again.",
  "As agreed I checked the {y} and the {x} in one go.",
  "For completeness, the {y} was mentioned {n} times in the old notes.",
  "It is late, so only the {x} for today.",
  "Both the {x} and the {y} are on the list for {d}.",
  "There might be a shortcut for the {y}, I will ask around.",
  "We can always undo the {x} when it turns out to be a mistake.",
  "I am glad that the {y} is out of the way.",
  "The longer I look at the {x}, the simpler it becomes.",
];
/** Ends of some sentences, so that talk seldom repeats itself. */
const TAILS = [
  "which is a relief",
  "but that is only my impression",
  "if nothing else gets in the way",
  "and the rest follows later",
  "although it was raining all day",
  "as long as {p} agrees",
  "so far without any trouble",
  "at least until {d}",
  "unless you see a problem",
  "and then we take a break",
  "even when it costs us {n} minutes",
  "as we did the last time",
  "for what it is worth",
  "and I mean that kindly",
  "because the {y} has to wait anyway",
  "just to be on the safe side",
];
const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

export function createHeldOutConversations(): Conversation[] {
  return parseScripts(SCRIPTS).map((script, n) => performScript(script, randomFrom(n + 1)));
}

/**
 * Each conversation with the two that follow it in the list, one after another: three times as many facts for the same
 * budget, so that not all of them fit.
 */
export function joinConversations(conversations: readonly Conversation[]): Conversation[] {
  return conversations.map((_, n) => {
    const parts = [0, 1, 2].map((next) => conversations[(n + next) % conversations.length]!);
    return {
      blocks: parts.flatMap(({ blocks }, part) =>
        blocks.map((block) =>
          block.tool_call_id === undefined
            ? block
            : { ...block, tool_call_id: `${part}_${block.tool_call_id}` },
        ),
      ),
      facts: parts.flatMap(({ facts }) => facts),
    };
  });
}

function parseScripts(text: string): Script[] {
  const scripts: Script[] = [];
  const shared: string[][] = [];
  for (const line of text.split("\n")) {
    const [, mark = "", rest = ""] = /^(#|nouns:|names:|[-+=@]|~?[uatlc]) (.*)$/.exec(line) ?? [];
    const script = scripts.at(-1)!;
    if (mark === "#") {
      const options = Object.fromEntries(rest.split("; ").map((part) => part.split(/=(.*)/).slice(0, 2)));
      scripts.push({ options, nouns: [], names: [], digressions: [], details: [], threads: [] });
      shared.push([]);
    } else if (mark === "nouns:") script.nouns = rest.split(", ");
    else if (mark === "names:") script.names = rest.split(", ");
    else if (mark === "+") script.digressions.push(rest);
    else if (mark === "=") script.details.push(rest);
    else if (mark === "-") (script.threads.at(-1)?.talk ?? shared.at(-1)!).push(rest);
    else if (mark === "@") script.threads.push({ talk: [...shared.at(-1)!], facts: [] });
    else if (mark !== "") addFact(script.threads.at(-1)!, mark, rest);
    else if (line !== "") throw new Error(`Not a line of a script: ${line}`);
  }
  return scripts;
}

function addFact({ facts }: Thread, mark: string, rest: string): void {
  const [marked = "", question = ""] = rest.split(" ?? ");
  const value = /\[(.+)\]/.exec(marked)![1]!;
  const statement = { location: mark.at(-1) as Location, said: marked.replace(`[${value}]`, value) };
  if (!mark.startsWith("~")) facts.push({ first: statement, fact: { question, value } });
  else Object.assign(facts.at(-1)!, { correction: statement, fact: { ...facts.at(-1)!.fact, value } });
}

function performScript(script: Script, random: (below: number) => number): Conversation {
  const { options, threads } = script;
  const turns = Number(options.turns);
  const pick = <T>(items: readonly T[]): T => items[random(items.length)]!;
  const fill = (template: string) =>
    template.replace(/\{([xyndp])\}/g, (_, slot: string) =>
      slot === "n"
        ? String(2 + random(95))
        : pick(slot === "d" ? DAYS : slot === "p" ? script.names : script.nouns),
    );
  const sentence = (thread: Thread) => {
    const talk = pick(random(5) < 2 ? thread.talk : TALK);
    const tail = talk.endsWith(".") && talk.length > 20 && random(2) === 0;
    const text = fill(tail ? `${talk.slice(0, -1)}, ${pick(TAILS)}.` : talk);
    return text[0]!.toUpperCase() + text.slice(1);
  };
  const paragraph = (thread: Thread, sentences: number) =>
    Array.from({ length: sentences }, () => sentence(thread));

  const order = orderThreads(options.order!, threads.length, turns, random);
  const statements_by_turn = planStatements(script, order, random);
  const blocks: Block[] = [];
  const text = (words: string) => [{ type: "text" as const, text: words }];
  for (const [turn, at] of order.entries()) {
    const thread = threads[at]!;
    const statementsIn = (location: Location) =>
      statements_by_turn[turn]!.filter((statement) => statement.location === location);
    const insert = (lines: string[], location: Location, mark = "") => {
      for (const statement of statementsIn(location))
        lines.splice(random(lines.length + 1), 0, mark + statement.said);
      return lines;
    };
    const spoken = insert(paragraph(thread, 1 + random(5)), "u");
    if (script.digressions.length > 0 && random(6) === 0) spoken.push(fill(pick(script.digressions)));
    blocks.push({ kind: "input", content: text(spoken.join(" ")) });
    if (statementsIn("t").length > 0 || random(4) === 0) {
      const tool_call_id = `call_${turn}`;
      const input = { about: pick(script.nouns) };
      blocks.push({ kind: "tool_call", content: [], tool_call_id, name: options.tool!, input });
      const rows = insert(
        Array.from({ length: 3 + random(6) }, () => fill(options.row!)),
        "t",
      );
      blocks.push({ kind: "tool_result", content: text(rows.join("\n")), tool_call_id, is_error: false });
    }
    const parts = [insert(paragraph(thread, 2 + random(4)), "a").join(" ")];
    if (statementsIn("l").length > 0 || random(7) === 0)
      parts.push(
        insert(
          paragraph(thread, 3).map((item) => `- ${item}`),
          "l",
          "- ",
        ).join("\n"),
      );
    if (statementsIn("c").length > 0)
      parts.push(
        "```",
        ...insert([`// ${sentence(thread)}`, `const LIMIT_${turn} = ${random(90)};`], "c"),
        "```",
      );
    blocks.push({ kind: "response", content: text(parts.join("\n")) });
  }
  return { blocks, facts: threads.flatMap(({ facts }) => facts.map(({ fact }) => fact)) };
}

/** The thread of each turn. */
function orderThreads(
  kind: string,
  threads: number,
  turns: number,
  random: (below: number) => number,
): number[] {
  const inSeries = (turn: number, length: number) =>
    Math.min(threads - 1, Math.floor((turn * threads) / length));
  return Array.from({ length: turns }, (_, turn) => {
    if (kind === "series") return inSeries(turn, turns);
    if (kind === "alternate") return turn % threads;
    // Every thread comes up a second time, for fewer turns.
    if (kind === "return") {
      const first = Math.ceil((turns * 2) / 3);
      return turn < first ? inSeries(turn, first) : inSeries(turn - first, turns - first);
    }
    return random(threads);
  });
}

/** The statements of each turn. A correction comes in a later turn of the same thread. */
function planStatements(
  { threads, details }: Script,
  order: readonly number[],
  random: (below: number) => number,
): Statement[][] {
  const statements_by_turn: Statement[][] = order.map(() => []);
  for (const [at, { facts }] of threads.entries()) {
    const turns = order.flatMap((thread, turn) => (thread === at ? [turn] : []));
    for (const [n, { first, correction }] of facts.entries()) {
      const when = Math.min(turns.length - 1, Math.floor((n * turns.length) / facts.length) + random(2));
      statements_by_turn[turns[when]!]!.push(first);
      if (correction === undefined) continue;
      const later = Math.min(turns.length - 1, when + 2 + random(turns.length - when));
      if (later === when) throw new Error(`No later turn is left for the correction of: ${first.said}`);
      statements_by_turn[turns[later]!]!.push(correction);
    }
  }
  for (const detail of details)
    statements_by_turn[random(order.length)]!.push({ location: random(3) === 0 ? "a" : "u", said: detail });
  return statements_by_turn;
}

/** Returns whole numbers below a limit, always the same ones for a seed. */
function randomFrom(seed: number): (below: number) => number {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
