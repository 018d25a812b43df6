/**
 * Long coding conversations from a fixed seed, with facts that are stated once. The filler has numbers, paths and names
 * too, so that none of them alone marks a fact.
 */
import type { Block } from "@backplane/contract";

export interface Fact {
  question: string;
  value: string;
}

export interface Conversation {
  blocks: Block[];
  facts: Fact[];
}

/** Returns whole numbers below a limit, always the same ones for a seed. */
function randomFrom(seed: number): (below: number) => number {
  let state = (seed * 2_654_435_761 + 1) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const SERVICES =
  "billing gateway search mailer importer scheduler ledger catalogue sessions thumbnails".split(" ");
const PEOPLE = "Marta Jonas Priya Tomasz Aiko Rahel Diego Nadia Emil Sanne".split(" ");
const LIBRARIES = "undici fastify kysely pino zod piscina busboy croner ioredis msgpackr".split(" ");
const REASONS = [
  "the vendor bills per request",
  "the auditors read that log",
  "mobile clients cache it",
  "the old importer still writes there",
  "the sandbox has no clock",
];

type FactTemplate = (service: string, random: (below: number) => number) => { statement: string } & Fact;

const FACTS: FactTemplate[] = [
  (service, random) => {
    const value = String(3_000 + random(6_000));
    return {
      statement: `The ${service} service listens on port ${value} in staging.`,
      question: `Which port does the ${service} service listen on in staging?`,
      value,
    };
  },
  (service, random) => {
    const value = PEOPLE[random(PEOPLE.length)]!;
    return {
      statement: `${value} owns the ${service} rollout, so ask there before changing it.`,
      question: `Who owns the ${service} rollout?`,
      value,
    };
  },
  (service, random) => {
    const value = LIBRARIES[random(LIBRARIES.length)]!;
    return {
      statement: `For the ${service} rewrite we settled on ${value}, the alternatives were too slow.`,
      question: `What did we settle on for the ${service} rewrite?`,
      value,
    };
  },
  (service, random) => {
    const value = `src/${service}/${["retry", "queue", "policy", "codec"][random(4)]}.ts`;
    return {
      statement: `The bug that drops ${service} events is in ${value}.`,
      question: `Which file has the bug that drops ${service} events?`,
      value,
    };
  },
  (service, random) => {
    const value = REASONS[random(REASONS.length)]!;
    return {
      statement: `Please do not clear the ${service} cache, ${value}.`,
      question: `Why should nobody clear the ${service} cache?`,
      value,
    };
  },
  (service, random) => {
    const value = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"][random(5)]!;
    return {
      statement: `The customer expects the ${service} fix by ${value} evening.`,
      question: `By when does the customer expect the ${service} fix?`,
      value,
    };
  },
];

const OPENERS = [
  "Okay, let me have a look at that",
  "Thanks, that makes sense to me",
  "I ran the tests again",
  "I read through the module once more",
  "Sure, I will do that next",
  "That sounds good so far",
  "Good, the build is green again",
  "I compared it with the old branch",
  "Let us keep going in small steps",
  "One more thing before we continue",
];
const MIDDLES = [
  "and everything looks as it did before",
  "and the structure is fine as it is",
  "although a few comments are out of date",
  "so that each change is easy to review",
  "and I think we are on the right track",
  "but it does not have to happen now",
  "which took longer than I had expected",
  "and nobody has complained about it yet",
  "since the diff was smaller than it seemed",
  "while the rest of the list can wait",
];
const CLOSERS = [
  "so please go ahead whenever you are ready.",
  "and then I will come back with the result.",
  "so there is nothing new from this side.",
  "and we can tidy up the imports later.",
  "so tell me how it went afterwards.",
  "and I would leave the names alone for now.",
  "so a short note in the log is enough.",
  "and the reviewers will want to see both parts.",
  "so we should be able to finish it soon.",
  "and I will write that down for the others.",
];

/** The number of facts in one conversation. */
export const FACTS_EACH = 30;

export function createConversation(seed: number): Conversation {
  const random = randomFrom(seed);
  const services = [...SERVICES].sort(() => random(3) - 1);
  const planned = Array.from({ length: FACTS_EACH }, (_, n) => {
    const service = services[n % services.length]!;
    return FACTS[(n + Math.floor(n / services.length) + seed) % FACTS.length]!(service, random);
  });
  const turns = 60 + random(20);
  const blocks: Block[] = [];
  const text = (words: string) => [{ type: "text" as const, text: words }];
  const talk = () => [OPENERS, MIDDLES, CLOSERS].map((parts) => parts[random(parts.length)]!).join(" ");
  for (let turn = 0; turn < turns; turn++) {
    // Every second turn states a fact until all facts are stated.
    const fact = turn % 2 === 1 ? planned[Math.floor(turn / 2)] : undefined;
    const position = random(3);
    const statementAt = (wanted_position: number) =>
      fact !== undefined && position === wanted_position ? ` ${fact.statement}` : "";
    blocks.push({ kind: "input", content: text(`${talk()}${statementAt(0)} ${talk()}`) });
    if (turn % 3 === 0 || position === 2) {
      const tool_call_id = `call_${turn}`;
      const service = services[random(services.length)]!;
      blocks.push({
        kind: "tool_call",
        content: [],
        tool_call_id,
        name: "grep",
        input: { pattern: service },
      });
      const lines = Array.from(
        { length: 6 },
        () =>
          `src/${services[random(services.length)]}/index.ts:${random(400)}: handled in ${random(900)} ms by worker ${random(16)}`,
      );
      if (position === 2 && fact !== undefined) lines.splice(random(6), 0, `README: ${fact.statement}`);
      blocks.push({ kind: "tool_result", content: text(lines.join("\n")), tool_call_id, is_error: false });
    }
    blocks.push({ kind: "response", content: text(`${talk()}${statementAt(1)} ${talk()} ${talk()}`) });
  }
  return { blocks, facts: planned.map(({ question, value }) => ({ question, value })) };
}
