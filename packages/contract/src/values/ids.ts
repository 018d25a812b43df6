/**
 * Ids consist of a prefix for the type and 26 characters of Crockford base32: 10 for the time in milliseconds and 16
 * random ones. Ids sort by creation time; within one millisecond the ids of one source sort in the order of creation.
 */
export const ID_PREFIXES = {
  invocation: "inv",
  package: "pkg",
  binding: "bind",
  approval: "appr",
  approval_grant: "agr",
  allow_rule: "alw",
  session: "sess",
  chain: "ch",
  run: "run",
  trace: "tr",
  request: "req",
  llm_call: "llm",
  tool_execution: "toolx",
  execution: "exec",
  delivery: "del",
  compaction: "cmp",
  event: "evt",
  connection: "conn",
  key: "key",
  trusted_key: "tkey",
  secret: "sec",
  job: "job",
  audit: "aud",
  workspace: "ws",
  node: "node",
  org: "org",
  project: "proj",
} as const;

export type IdNoun = keyof typeof ID_PREFIXES;

export interface IdSource {
  next(noun: IdNoun): string;
}

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
/** All pairs of digits, so that an id is joined from few parts. */
const PAIRS: readonly string[] = Array.from(
  { length: 1024 },
  (_, value) => ALPHABET[value >> 5]! + ALPHABET[value & 31]!,
);
const RANDOM_LENGTH = 16;
/** All but the last two digits rarely change, so their text is cached. */
const STEM_LENGTH = RANDOM_LENGTH - 2;
/** Random bytes are drawn in advance for this many milliseconds, because drawing them costs more than an id. */
const BUFFERED_DRAWS = 64;

/** `random` fills an array with random bytes; it is a parameter because this module is platform independent. */
export function createIdSource(now: () => number, random: (bytes: Uint8Array) => void): IdSource {
  let last_ms = -1;
  const digits = new Uint8Array(RANDOM_LENGTH);
  const buffer = new Uint8Array(BUFFERED_DRAWS * RANDOM_LENGTH);
  let buffer_offset = buffer.length;
  let stem = "";
  const drawDigits = () => {
    if (buffer_offset === buffer.length) {
      random(buffer);
      buffer_offset = 0;
    }
    for (let i = 0; i < RANDOM_LENGTH; i++) digits[i] = buffer[buffer_offset++]! & 31;
    // The top digit starts low, so that incrementing within one millisecond cannot overflow.
    digits[0] = digits[0]! & 15;
  };
  const encodeStem = () => {
    const parts = encodeTime(last_ms);
    for (let i = 0; i < STEM_LENGTH; i += 2) parts.push(pairAt(digits, i));
    stem = parts.join("");
  };
  return {
    next(noun) {
      const ms = Math.max(now(), last_ms);
      if (ms === last_ms) {
        if (increment(digits) < STEM_LENGTH) encodeStem();
      } else {
        drawDigits();
        last_ms = ms;
        encodeStem();
      }
      // Joined, not concatenated: V8 represents a concatenation as a tree, and JSON.stringify of a record that contains
      // one leaves its fast path, which doubles its cost.
      return [ID_PREFIXES[noun], "_", stem, pairAt(digits, STEM_LENGTH)].join("");
    },
  };
}

export function isId(noun: IdNoun, value: string): boolean {
  const prefix = `${ID_PREFIXES[noun]}_`;
  return value.startsWith(prefix) && /^[0-9a-hjkmnp-tv-z]{26}$/.test(value.slice(prefix.length));
}

/** Sorts before every id of this millisecond or later, and after every earlier id. */
export function idAt(noun: IdNoun, ms: number): string {
  return `${ID_PREFIXES[noun]}_${encodeTime(Math.max(0, Math.floor(ms))).join("")}`;
}

function pairAt(digits: Uint8Array, at: number): string {
  return PAIRS[(digits[at]! << 5) | digits[at + 1]!]!;
}

/** Encodes the time as ten digits, in pairs. */
function encodeTime(ms: number): string[] {
  const parts: string[] = [];
  for (let scale = 2 ** 40; scale >= 1; scale /= 1024) parts.push(PAIRS[Math.floor(ms / scale) % 1024]!);
  return parts;
}

/** Increments the number and returns the position of its leftmost changed digit. */
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
