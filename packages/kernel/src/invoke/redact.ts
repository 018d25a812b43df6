/**
 * The last line before anything is recorded: takes the secrets of a call out of its result, events and error,
 * whatever runner they come from. Raw, JSON-escaped, URL-encoded, base64 and base64url at any alignment.
 */
import type { Json } from "@backplane/contract";

const REDACTED = "[redacted]";
/** Shorter values would blank out half of every answer and protect nothing. */
const SHORTEST = 4;

export interface Redactor {
  text(value: string): string;
  json<T extends Json>(value: T): T;
}

/** null when there is nothing to look for, which is the usual call. */
export function createRedactor(secrets: readonly string[]): Redactor | null {
  const spellings = new Set<string>();
  for (const secret of secrets) if (secret.length >= SHORTEST) addSpellings(secret, spellings);
  if (spellings.size === 0) return null;
  // Longest first: a spelling that holds another must go before its part does.
  const needles = [...spellings].sort((a, b) => b.length - a.length);
  const text = (value: string) => {
    let clean = value;
    for (const needle of needles) if (clean.includes(needle)) clean = clean.replaceAll(needle, REDACTED);
    return clean;
  };
  return { text, json: (value) => walk(value, text) as typeof value };
}

function addSpellings(secret: string, into: Set<string>): void {
  into.add(secret).add(JSON.stringify(secret).slice(1, -1));
  const url = encodeURIComponent(secret.toWellFormed());
  into.add(url).add(url.replaceAll("%20", "+"));
  const bytes = Buffer.from(secret, "utf8");
  for (let shift = 0; shift < 3; shift++) {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64");
    // Only the characters that the secret alone decides.
    const own = encoded.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + bytes.length) * 8) / 6));
    if (own.length >= SHORTEST) into.add(own).add(own.replaceAll("+", "-").replaceAll("/", "_"));
  }
}

function walk(value: Json, text: (value: string) => string): Json {
  if (typeof value === "string") return text(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => walk(item, text));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [text(key), walk(item, text)]));
}
