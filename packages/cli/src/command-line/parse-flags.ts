/** Parses and checks flag values. An invalid value is a usage error that names the flag. */
import { InvalidArgumentError } from "commander";

export function wholeNumber(flag: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`${flag} takes a whole number from ${min} to ${max}.`);
  };
}

export function percentage(flag: string): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && value >= 0 && value <= 100) return value;
    throw new InvalidArgumentError(`${flag} takes a number from 0 to 100.`);
  };
}

/** For a flag that may be repeated and accepts lists separated by commas. */
export function parseList(text: string, previous: string[] = []): string[] {
  return [
    ...previous,
    ...text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== ""),
  ];
}

/** For a flag that may be repeated; values are not split. */
export function collectValues(text: string, previous: string[] = []): string[] {
  return [...previous, text];
}

/** Collects `slot=NAME` pairs. */
export function parseSlotPair(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const match = /^([a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*)=(.+)$/.exec(text);
  if (match === null) throw new InvalidArgumentError("--secret takes slot=NAME, as in jira_token=jira_dev.");
  // Slots are written in lower case; a variable such as GITHUB_TOKEN is bound to the slot with its name.
  return { ...previous, [match[1]!.toLowerCase()]: match[2]! };
}

/** Collects `NAME=value` pairs of environment variables. */
export function parseVariable(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/s.exec(text);
  if (match === null) throw new InvalidArgumentError("--env takes NAME=VALUE, as in LOG_LEVEL=debug.");
  return { ...previous, [match[1]!]: match[2]! };
}

/** Splits text into words as a shell does, with quotes and backslashes but without expansions. */
export function parseWords(text: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (quote !== null) {
      if (character === quote) quote = null;
      else if (character === "\\" && quote === '"' && at + 1 < text.length) word += text[++at]!;
      else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= "";
    } else if (character === "\\" && at + 1 < text.length) word = (word ?? "") + text[++at]!;
    else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + character;
  }
  if (quote !== null) throw new InvalidArgumentError(`--args has no closing ${quote}.`);
  return word === null ? words : [...words, word];
}

export function parseServerName(text: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/.test(text)) return text;
  throw new InvalidArgumentError("--name takes up to 40 letters, digits, - and _, as in github.");
}

/** Seconds, or 0 for `never`. */
export function parseIdleTimeout(text: string): number {
  if (text === "never") return 0;
  if (/^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) <= 86_400) return Number(text);
  throw new InvalidArgumentError("--idle-timeout takes seconds, up to 86400, or never.");
}

/** A folder as the user wrote it, and where it is mounted, if the user specified that. */
export interface MountFlag {
  folder: string;
  target?: string;
  writable: boolean;
}

/** Collects `folder[:target][:rw]`. `resolveGatewayPath` resolves the folder, which is on the gateway's machine. */
export function parseMount(text: string, previous: MountFlag[] | false = []): MountFlag[] {
  const writable = text.endsWith(":rw");
  const [folder = "", target, ...more] = text.replace(/:r[wo]$/, "").split(":");
  if (folder === "" || more.length > 0) {
    throw new InvalidArgumentError("--mount takes FOLDER[:TARGET][:rw], as in ~/notes:/data:rw.");
  }
  return [...(previous || []), { folder, ...(target === undefined ? {} : { target }), writable }];
}

/** `1000` or `1000:20`: tokens per request and requests per hour. */
export function parseSampling(text: string): { max_tokens: number; per_hour: number } {
  const match = /^(\d+)(?::(\d+))?$/.exec(text);
  if (match === null)
    throw new InvalidArgumentError("--sampling takes TOKENS or TOKENS:PER_HOUR, as in 1000:20.");
  return { max_tokens: Number(match[1]), per_hour: Number(match[2] ?? SAMPLING_PER_HOUR) };
}

const SAMPLING_PER_HOUR = 60;
