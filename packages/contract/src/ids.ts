/**
 * Ids: a prefix that says what the thing is, then 26 characters of Crockford base32: 48 bits of
 * milliseconds and 80 random bits. They sort by creation time to the millisecond, and inside one
 * millisecond in the order in which one source made them.
 */
export const ID_PREFIXES = {
  invocation: "inv",
  package: "pkg",
  binding: "bind",
  approval: "appr",
  approval_grant: "agr",
  session: "sess",
  chain: "ch",
  run: "run",
  trace: "tr",
  request: "req",
  tool_execution: "toolx",
  execution: "exec",
  delivery: "del",
  compaction: "cmp",
  event: "evt",
  key: "key",
  secret: "sec",
  job: "job",
  audit: "aud",
  node: "node",
  org: "org",
  project: "proj",
} as const;

export type IdNoun = keyof typeof ID_PREFIXES;

export interface IdSource {
  next(noun: IdNoun): string;
}

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const RANDOM_LENGTH = 16;
/** All but the last two digits stay as they are for a while, so they are spelled once. */
const STEM_LENGTH = RANDOM_LENGTH - 2;

/** `random` fills an array with random bytes; it is passed in because this room knows no platform. */
export function createIdSource(now: () => number, random: (bytes: Uint8Array) => void): IdSource {
  let lastMs = -1;
  const digits = new Uint8Array(RANDOM_LENGTH);
  let stem = "";
  const spellStem = () => {
    stem = encodeTime(lastMs);
    for (let i = 0; i < STEM_LENGTH; i++) stem += ALPHABET[digits[i]!];
  };
  return {
    next(noun) {
      const ms = Math.max(now(), lastMs);
      if (ms === lastMs) {
        if (increment(digits) < STEM_LENGTH) spellStem();
      } else {
        random(digits);
        for (let i = 0; i < RANDOM_LENGTH; i++) digits[i] = digits[i]! & 31;
        // The top digit starts low so that counting up inside one millisecond cannot overflow.
        digits[0] = digits[0]! & 15;
        lastMs = ms;
        spellStem();
      }
      return `${ID_PREFIXES[noun]}_${stem}${ALPHABET[digits[STEM_LENGTH]!]}${ALPHABET[digits[STEM_LENGTH + 1]!]}`;
    },
  };
}

export function isId(noun: IdNoun, value: string): boolean {
  const prefix = `${ID_PREFIXES[noun]}_`;
  return value.startsWith(prefix) && /^[0-9a-hjkmnp-tv-z]{26}$/.test(value.slice(prefix.length));
}

function encodeTime(ms: number): string {
  let rest = ms;
  let text = "";
  for (let i = 0; i < 10; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** The place of the leftmost digit that changed. */
function increment(digits: Uint8Array): number {
  for (let i = digits.length - 1; i >= 0; i--) {
    const next = digits[i]! + 1;
    if (next < 32) {
      digits[i] = next;
      return i;
    }
    digits[i] = 0;
  }
  return 0;
}
