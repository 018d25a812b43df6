/**
 * Sanitizes third-party texts for models and people: descriptions, titles, schema texts. Invisible characters may be
 * read by a model (tags, zero-width characters) or change what a person sees (controls, bidi overrides), so each run
 * of them is replaced by one visible mark. Characters that writing needs are kept: line breaks, tabs, the joiners and
 * variation selectors of emoji, and joiners between letters of scripts that use them.
 */
import type { Json } from "./json.ts";

/** Replaces removed characters. */
export const HIDDEN_MARK = "\u{fffd}";

/** The removed characters of one text. */
export interface HiddenCharacters {
  /** JSON pointer to the text, or to the key itself if the text is a key. */
  path: string;
  count: number;
  /** The first distinct characters, such as U+202E. */
  characters: string[];
  /** The text encoded in tag characters, a way to smuggle instructions; null if there are none. */
  spells: string | null;
}

const HIDDEN = String.raw`[\p{Cc}\p{Cs}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]`;
/** Letters and marks of all scripts except those that never use joiners inside words. */
const JOINING = String.raw`[[\p{L}\p{M}]--[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Han}]]`;
const NEEDED = [
  String.raw`[\n\t]`,
  String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})`,
  String.raw`(?<=\p{Emoji})[\ufe0e\ufe0f]`,
  String.raw`(?<=${JOINING})[\u200c\u200d](?=${JOINING})`,
].join("|");
const ANY = new RegExp(HIDDEN, "v");
const RUN = new RegExp(`(?:(?!${NEEDED})${HIDDEN})+`, "gv");
const NEW_LINES = /\r\n?|[\u2028\u2029]/g;
const MAX_LISTED = 5;
const MAX_SPELLED = 200;

export function sanitizeText(text: string): string {
  return ANY.test(text) ? text.replaceAll(NEW_LINES, "\n").replaceAll(RUN, HIDDEN_MARK) : text;
}

/** Sanitizes all strings and keys; returns the same value if nothing has to be removed. */
export function sanitizeJson<T extends Json>(value: T): T {
  return clean(value) as T;
}

function clean(value: Json): Json {
  if (typeof value === "string") return sanitizeText(value);
  if (typeof value !== "object" || value === null) return value;
  let changed = false;
  if (Array.isArray(value)) {
    const items = value.map((item) => {
      const cleaned = clean(item);
      changed ||= cleaned !== item;
      return cleaned;
    });
    return changed ? items : value;
  }
  const entries = Object.entries(value).map(([key, item]): [string, Json] => {
    const pair: [string, Json] = [sanitizeText(key), clean(item)];
    changed ||= pair[0] !== key || pair[1] !== item;
    return pair;
  });
  return changed ? Object.fromEntries(entries) : value;
}

/** Lists the characters that `sanitizeJson` removes, for the operator. */
export function findHiddenCharacters(value: Json): HiddenCharacters[] {
  const hidden: HiddenCharacters[] = [];
  const inspect = (text: string, path: string) => {
    if (!ANY.test(text)) return;
    const runs = text.replaceAll(NEW_LINES, "\n").match(RUN) ?? [];
    if (runs.length > 0) hidden.push({ path: sanitizeText(path), ...summarizeHidden(runs.join("")) });
  };
  const walk = (at: Json, path: string): void => {
    if (typeof at === "string") inspect(at, path);
    else if (Array.isArray(at)) {
      for (const [i, item] of at.entries()) walk(item, `${path}/${i}`);
    } else if (typeof at === "object" && at !== null)
      for (const [key, item] of Object.entries(at)) {
        const child_path = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        inspect(key, child_path);
        walk(item, child_path);
      }
  };
  walk(value, "");
  return hidden;
}

/** Formats a removal as one line. */
export function describeHiddenCharacters({ path, count, characters, spells }: HiddenCharacters): string {
  const description = `${count} hidden ${count === 1 ? "character" : "characters"} (${characters.join(", ")})`;
  return `${path === "" ? "" : `${path}: `}${description}${spells === null ? "" : `, which spell ${JSON.stringify(spells)}`}`;
}

function summarizeHidden(hidden: string): Omit<HiddenCharacters, "path"> {
  const points = Array.from(hidden, (character) => character.codePointAt(0)!);
  const names = new Set(points.map((point) => `U+${point.toString(16).toUpperCase().padStart(4, "0")}`));
  const characters = [...names].slice(0, MAX_LISTED);
  if (names.size > MAX_LISTED) characters.push(`${names.size - MAX_LISTED} more`);
  const tags = points.filter((point) => point >= 0xe0020 && point <= 0xe007e).slice(0, MAX_SPELLED);
  const spells = tags.length === 0 ? null : String.fromCodePoint(...tags.map((point) => point - 0xe0000));
  return { count: points.length, characters, spells };
}
