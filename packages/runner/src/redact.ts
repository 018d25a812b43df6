/**
 * Takes the secrets of an order out of everything that leaves the runner: results, events, errors, stderr.
 * A secret is found raw, JSON-escaped, URL-encoded, and in base64 and base64url at any of the three alignments
 * (so `Basic base64(user:secret)` is caught too). Values under four characters are left alone: they would
 * blank out half of every answer and protect nothing.
 */
import type { InvocationContext, Json } from "@backplane/contract";

export const REDACTED = "[redacted]";
const SHORTEST = 4;

export interface Redactor {
  /** False: there is nothing to look for, and callers can skip the work. */
  readonly active: boolean;
  text(value: string): string;
  json<T extends Json>(value: T): T;
  /** Text cut out of a stream: a secret that the cut left in two is dropped at either end as well. */
  excerpt(value: string): string;
}

const NOTHING: Redactor = {
  active: false,
  text: (value) => value,
  json: (value) => value,
  excerpt: (value) => value,
};

/** The common case costs nothing: most calls carry no secret. */
export function redactorFor(context: InvocationContext): Redactor {
  if (context.gateway.delegation_token === undefined) {
    let any = false;
    for (const _slot in context.secrets) any = true;
    if (!any) return NOTHING;
  }
  return createRedactor(secretsOf(context));
}

export function secretsOf(context: InvocationContext): string[] {
  const values: string[] = [];
  for (const slot in context.secrets) values.push(context.secrets[slot]!);
  const token = context.gateway.delegation_token;
  if (token !== undefined) values.push(token);
  return values;
}

export function createRedactor(secrets: readonly string[]): Redactor {
  if (secrets.length === 0) return NOTHING;
  const spellings = new Set<string>();
  for (const secret of secrets) for (const spelling of spellingsOf(secret)) spellings.add(spelling);
  if (spellings.size === 0) return NOTHING;
  // Longest first: a spelling that contains another must go before its part does.
  const needles = [...spellings].sort((a, b) => b.length - a.length);
  const text = (value: string) => {
    let clean = value;
    for (const needle of needles) if (clean.includes(needle)) clean = clean.replaceAll(needle, REDACTED);
    return clean;
  };
  return {
    active: true,
    text,
    json: (value) => redactJson(value, text) as typeof value,
    excerpt: (value) => dropCutEnds(text(value), needles),
  };
}

function spellingsOf(secret: string): string[] {
  if (secret.length < SHORTEST) return [];
  const all = [secret, JSON.stringify(secret).slice(1, -1)];
  try {
    all.push(encodeURIComponent(secret), encodeURIComponent(secret).replaceAll("%20", "+"));
  } catch {
    // A lone surrogate has no URL spelling.
  }
  const bytes = Buffer.from(secret, "utf8");
  for (let shift = 0; shift < 3; shift++) {
    for (const encoded of base64At(bytes, shift)) {
      if (encoded.length >= SHORTEST) all.push(encoded, encoded.replaceAll("+", "-").replaceAll("/", "_"));
    }
  }
  return all;
}

/**
 * How base64 spells `bytes` after `shift` unknown bytes: at the end of the text, with and without padding, and
 * in the middle of it, where the last character belongs to what follows as well.
 */
function base64At(bytes: Buffer, shift: number): string[] {
  const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64");
  const first = Math.ceil((shift * 8) / 6);
  const last = Math.floor(((shift + bytes.length) * 8) / 6);
  return [encoded.slice(first), encoded.slice(first).replace(/=+$/, ""), encoded.slice(first, last)];
}

function redactJson(value: Json, text: (value: string) => string): Json {
  if (typeof value === "string") return text(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    let copy: Json[] | undefined;
    for (let i = 0; i < value.length; i++) {
      const clean = redactJson(value[i]!, text);
      if (clean === value[i]) continue;
      copy ??= value.slice();
      copy[i] = clean;
    }
    return copy ?? value;
  }
  let dirty = false;
  const entries: [string, Json][] = [];
  for (const key of Object.keys(value)) {
    const clean = redactJson(value[key]!, text);
    const name = text(key);
    if (clean !== value[key] || name !== key) dirty = true;
    entries.push([name, clean]);
  }
  return dirty ? Object.fromEntries(entries) : value;
}

function dropCutEnds(value: string, needles: readonly string[]): string {
  let start = 0;
  let end = value.length;
  for (const needle of needles) {
    for (let length = needle.length - 1; length >= SHORTEST; length--) {
      if (value.startsWith(needle.slice(-length))) {
        start = Math.max(start, length);
        break;
      }
    }
    for (let length = needle.length - 1; length >= SHORTEST; length--) {
      if (value.endsWith(needle.slice(0, length))) {
        end = Math.min(end, value.length - length);
        break;
      }
    }
  }
  return start === 0 && end === value.length ? value : value.slice(start, Math.max(start, end));
}
