/**
 * Whether the arguments of a call meet the conditions of an allow rule. A condition that cannot be decided counts as
 * not met, and the call needs approval. In a pattern `*` matches neither control characters nor the characters that
 * join, redirect or expand shell commands, because `git *` must not allow `git log; rm -rf ~`.
 */
import { type AllowRule, type ArgumentCondition, canonicalJson, type Json } from "@backplane/contract";

export function matchesArguments(
  { arguments: conditions, other_arguments }: Pick<AllowRule, "arguments" | "other_arguments">,
  input: Json,
): boolean {
  if (conditions === null) return true;
  if (typeof input !== "object" || input === null || Array.isArray(input)) return false;
  const names = Object.keys(conditions);
  if (!other_arguments && Object.keys(input).some((name) => !Object.hasOwn(conditions, name))) return false;
  return names.every((name) => Object.hasOwn(input, name) && meetsCondition(conditions[name]!, input[name]!));
}

function meetsCondition({ equals, matches }: ArgumentCondition, value: Json): boolean {
  if (matches === undefined) return equals !== undefined && canonicalJson(equals) === canonicalJson(value);
  return typeof value === "string" && matchesPattern(matches, value);
}

/**
 * Control, format, private-use and unassigned characters, line and paragraph separators, and the characters that join,
 * redirect or expand shell commands.
 */
const NOT_MATCHED_BY_WILDCARD = /[\p{C}\p{Zl}\p{Zp};|&$<>`]/u;

/** `..` as a whole path segment or word. Percent-encoded dots are decoded before the test. */
const PARENT_FOLDER = /(?<![\w.-])\.\.(?![\w.-])/;

function matchesPattern(pattern: string, value: string): boolean {
  const parts = pattern.split("*");
  if (parts.length === 1) return pattern === value;
  if (PARENT_FOLDER.test(value.replaceAll(/%2e/gi, "."))) return false;
  const [first, last] = [parts[0]!, parts.at(-1)!];
  if (value.length < first.length + last.length || !value.startsWith(first) || !value.endsWith(last))
    return false;
  // The leftmost match of each part leaves the most text for the others, so nothing has to be retried.
  let at = first.length;
  const end = value.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const position = value.indexOf(part, at);
    if (
      position < 0 ||
      position + part.length > end ||
      NOT_MATCHED_BY_WILDCARD.test(value.slice(at, position))
    )
      return false;
    at = position + part.length;
  }
  return !NOT_MATCHED_BY_WILDCARD.test(value.slice(at, end));
}
