/**
 * Redacts secrets from texts and values, in all their usual encodings, in one pass for any number of secrets. A table
 * says how many characters the search may skip (Wu and Manber). A comparison that reaches MAX_COMPARED characters is a
 * match, and the search continues after a longer match, so the cost is bounded by the length of the text.
 */
import { findTokens } from "./gateway-tokens.ts";
import type { Json } from "./json.ts";
import { encodingsOf, MIN_SECRET_LENGTH } from "./secret-encodings.ts";

export const REDACTED = "[redacted]";
/** A match of this many characters is sufficient; further matching characters are redacted as well. */
const MAX_COMPARED = 64;
const WINDOW = 8;
const TABLE_SIZE = 2048;

/** A range of positions; `to` is exclusive. */
export type TextRange = [from: number, to: number];

export interface Redactor {
  text(value: string): string;
  /** Redacts keys as well; copies only changed parts. */
  json<T extends Json>(value: T): T;
  /** For an excerpt of a stream: also redacts parts of a secret at both ends. */
  excerpt(value: string): string;
  /** The ranges of secrets, in order and not overlapping. */
  ranges(value: string): TextRange[];
  /** The number of characters at the end that are the start of a secret; 0 for fewer than four. */
  partialSecretLength(value: string): number;
}

/** Returns null if there is no secret that is long enough to be redacted, which is the usual case. */
export function createRedactor(secrets: readonly string[]): Redactor | null {
  const encodings = new Set<string>();
  for (const secret of secrets) for (const encoding of encodingsOf(secret)) encodings.add(encoding);
  if (encodings.size === 0) return null;
  const needles = [...encodings];
  const ranges = createFinder(needles);
  const text = (value: string) => replaceRanges(value, ranges(value));
  // A numeric secret may be printed as a number.
  const numeric = needles.some((needle) => /^[-+.\deE]+$/.test(needle));
  return {
    text,
    ranges,
    json: (value) => redactJson(value, text, numeric) as typeof value,
    excerpt: (value) => dropPartialSecrets(text(value), needles),
    partialSecretLength: (value) => maxLength(needles, (needle) => overlapLength(value, needle)),
  };
}

function replaceRanges(value: string, ranges: readonly TextRange[]): string {
  if (ranges.length === 0) return value;
  let clean = "";
  let from = 0;
  for (const [start, end] of ranges) {
    clean += value.slice(from, start) + REDACTED;
    from = end;
  }
  return clean + value.slice(from);
}

function createFinder(needles: readonly string[]): (text: string) => TextRange[] {
  const window = Math.min(WINDOW, ...needles.map((needle) => needle.length));
  const jumps = new Uint8Array(TABLE_SIZE).fill(window - 1);
  const buckets = new Map<number, string[]>();
  for (const needle of needles) {
    for (let i = 1; i < window; i++) {
      const pair = pairAt(needle, i);
      jumps[pair] = Math.min(jumps[pair]!, window - 1 - i);
    }
    const last = pairAt(needle, window - 1);
    buckets.set(last, [...(buckets.get(last) ?? []), needle]);
  }
  return (text) => {
    const ranges: TextRange[] = [];
    for (let at = window - 1; at < text.length; ) {
      const pair = pairAt(text, at);
      const jump = jumps[pair]!;
      if (jump > 0) {
        at += jump;
        continue;
      }
      const start = at - window + 1;
      const length = maxLength(buckets.get(pair) ?? [], (needle) => matchLength(text, start, needle));
      if (length > 0) addRange(ranges, start, start + length);
      // Another secret may begin inside a short match; searching inside a long match would compare every position
      // again.
      at += length > MAX_COMPARED ? length : 1;
    }
    return addTokens(ranges, text);
  };
}

/** Tokens of the gateway are recognized by their format, so that tokens of other calls are redacted as well. */
function addTokens(ranges: TextRange[], text: string): TextRange[] {
  const tokens = findTokens(text).map((hit): TextRange => [hit.index, hit.index + hit[0].length]);
  if (tokens.length === 0) return ranges;
  const merged: TextRange[] = [];
  for (const [from, to] of [...ranges, ...tokens].toSorted((a, b) => a[0] - b[0])) addRange(merged, from, to);
  return merged;
}

function pairAt(text: string, at: number): number {
  return (text.charCodeAt(at - 1) * 31 + text.charCodeAt(at)) % TABLE_SIZE;
}

function matchLength(text: string, start: number, needle: string): number {
  const enough = Math.min(needle.length, MAX_COMPARED);
  let same = 0;
  while (same < needle.length && text.charCodeAt(start + same) === needle.charCodeAt(same)) same++;
  return same < enough ? 0 : same;
}

function addRange(ranges: TextRange[], start: number, end: number): void {
  const last = ranges.at(-1);
  if (last === undefined || last[1] < start) ranges.push([start, end]);
  else last[1] = Math.max(last[1], end);
}

function maxLength(needles: readonly string[], lengthOf: (needle: string) => number): number {
  let longest = 0;
  for (const needle of needles) longest = Math.max(longest, lengthOf(needle));
  return longest;
}

function redactJson(value: Json, text: (value: string) => string, numeric: boolean): Json {
  if (typeof value === "string") return text(value);
  if (typeof value === "number") return numeric && text(String(value)) !== String(value) ? REDACTED : value;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    let copy: Json[] | undefined;
    for (let i = 0; i < value.length; i++) {
      const clean = redactJson(value[i]!, text, numeric);
      if (clean === value[i]) continue;
      copy ??= value.slice();
      copy[i] = clean;
    }
    return copy ?? value;
  }
  let dirty = false;
  const entries: [string, Json][] = [];
  for (const key of Object.keys(value)) {
    const clean = redactJson(value[key]!, text, numeric);
    const name = text(key);
    if (clean !== value[key] || name !== key) dirty = true;
    entries.push([name, clean]);
  }
  return dirty ? Object.fromEntries(entries) : value;
}

function dropPartialSecrets(value: string, needles: readonly string[]): string {
  const start = maxLength(needles, (needle) => overlapLength(needle, value));
  const end = value.length - maxLength(needles, (needle) => overlapLength(value, needle));
  return start === 0 && end === value.length ? value : value.slice(start, Math.max(start, end));
}

/** Length of the longest suffix of `left` that starts `right`; 0 below four characters (Knuth, Morris and Pratt). */
function overlapLength(left: string, right: string): number {
  const tail = left.slice(Math.max(0, left.length - right.length));
  const head = right.slice(0, tail.length);
  const borders = new Uint32Array(head.length);
  for (let i = 1, k = 0; i < head.length; i++) {
    while (k > 0 && head.charCodeAt(i) !== head.charCodeAt(k)) k = borders[k - 1]!;
    if (head.charCodeAt(i) === head.charCodeAt(k)) k++;
    borders[i] = k;
  }
  let length = 0;
  for (let i = 0; i < tail.length; i++) {
    while (length > 0 && (length === head.length || tail.charCodeAt(i) !== head.charCodeAt(length))) {
      length = borders[length - 1]!;
    }
    if (tail.charCodeAt(i) === head.charCodeAt(length)) length++;
  }
  return length >= MIN_SECRET_LENGTH ? length : 0;
}
