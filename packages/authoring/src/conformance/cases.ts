/**
 * The author's own cases: JSON files in `tests`, each with one case or a list. They run over the same protocol as every
 * other check, so they work for any language.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";

export interface AuthorCase {
  name: string;
  /** The id of the export. */
  export: string;
  /** A tool's input, fields of a hook's event, or fields of the request of a compactor or harness. */
  input?: Json;
  config?: JsonObject;
  secrets?: Record<string, string>;
  expect: Expectation;
}

export interface Expectation {
  /** Default: succeeded, or ack for a hook; failed if there is an `error`. */
  status?: string;
  /** Must be part of a tool's structured output, or of the result of another kind. */
  output?: Json;
  /** Must be part of the text of the result. */
  text?: string;
  error?: { code?: string; message?: string };
}

const CASES_FOLDER = "tests";

/** Reads the author's cases. Throws `cli.usage`, naming the file and the problem, if a case is invalid. */
export function readCases(folder: string, export_ids: readonly string[]): AuthorCase[] {
  return listCaseFiles(folder).flatMap((file) => {
    const path = `${CASES_FOLDER}/${file}`;
    let content: unknown;
    try {
      content = JSON.parse(readFileSync(join(folder, CASES_FOLDER, file), "utf8"));
    } catch (error) {
      throw invalidCase(path, `it is not valid JSON: ${(error as Error).message.split("\n")[0]}`);
    }
    const cases = Array.isArray(content) ? content : [content];
    return cases.map((value, index) => readCase(value, `${path}[${index}]`, export_ids));
  });
}

function listCaseFiles(folder: string): string[] {
  try {
    return readdirSync(join(folder, CASES_FOLDER))
      .filter((name) => name.endsWith(".json"))
      .sort();
  } catch {
    return [];
  }
}

const FIELDS = ["name", "export", "input", "config", "secrets", "expect"];
const EXPECTED_FIELDS = ["status", "output", "text", "error"];

function readCase(value: unknown, where: string, export_ids: readonly string[]): AuthorCase {
  if (!isObject(value)) throw invalidCase(where, "a case must be an object");
  const unknown = Object.keys(value).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) throw invalidCase(where, `${unknown} is not one of ${FIELDS.join(", ")}`);
  const { name, export: export_id, expect } = value;
  if (typeof name !== "string" || name === "") throw invalidCase(where, "name must be a non-empty string");
  if (typeof export_id !== "string" || !export_ids.includes(export_id))
    throw invalidCase(where, `export is not one of ${export_ids.join(", ")}`);
  if (!isObject(expect)) throw invalidCase(where, "expect must be an object");
  const unknown_expectation = Object.keys(expect).find((field) => !EXPECTED_FIELDS.includes(field));
  if (unknown_expectation !== undefined)
    throw invalidCase(where, `expect.${unknown_expectation} is not one of ${EXPECTED_FIELDS.join(", ")}`);
  for (const field of ["config", "secrets"])
    if (value[field] !== undefined && !isObject(value[field]))
      throw invalidCase(where, `${field} must be an object`);
  return value as unknown as AuthorCase;
}

function invalidCase(where: string, problem: string): BackplaneError {
  return new BackplaneError("cli.usage", `${where}: ${problem}.`, {
    fix: 'See "Test it" in docs/authoring.md.',
  });
}

/** The outcome of a call, in the terms of a case. */
export interface CaseOutcome {
  status: string;
  output: Json | null;
  text: string;
  error: { code: string; message: string } | null;
}

/** Describes the first difference from the expectation; null if there is none. */
export function compareOutcome(expect: Expectation, outcome: CaseOutcome, is_hook: boolean): string | null {
  const success = is_hook ? "ack" : "succeeded";
  const status = expect.status ?? (expect.error === undefined ? success : "failed");
  if (outcome.status !== status) {
    const reason = outcome.error === null ? "" : `: ${outcome.error.message}`;
    return `the status is ${outcome.status}, expected ${status}${reason}`;
  }
  if (expect.output !== undefined) {
    const difference = findDifference(expect.output, outcome.output, "output");
    if (difference !== null) return difference;
  }
  if (expect.text !== undefined && !outcome.text.includes(expect.text))
    return `the text is ${JSON.stringify(outcome.text)}, expected one with ${JSON.stringify(expect.text)}`;
  const { code, message } = expect.error ?? {};
  if (code !== undefined && outcome.error?.code !== code)
    return `the error code is ${JSON.stringify(outcome.error?.code ?? null)}, expected ${JSON.stringify(code)}`;
  if (message !== undefined && !(outcome.error?.message ?? "").includes(message))
    return `the error message is ${JSON.stringify(outcome.error?.message ?? null)}, expected one with ${JSON.stringify(message)}`;
  return null;
}

/** Objects may have more fields than expected; lists and other values must be equal. */
function findDifference(expected: Json, actual: Json | undefined, path: string): string | null {
  if (isObject(expected) && isObject(actual)) {
    for (const [key, value] of Object.entries(expected)) {
      const difference = findDifference(value as Json, actual[key], `${path}.${key}`);
      if (difference !== null) return difference;
    }
    return null;
  }
  if (Array.isArray(expected) && Array.isArray(actual) && expected.length === actual.length) {
    for (const [index, value] of expected.entries()) {
      const difference = findDifference(value, actual[index], `${path}[${index}]`);
      if (difference !== null) return difference;
    }
    return null;
  }
  if (expected === actual) return null;
  return `${path} is ${JSON.stringify(actual ?? null)}, expected ${JSON.stringify(expected)}`;
}
