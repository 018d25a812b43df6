/**
 * Changes the entry of the gateway in the text of a client's configuration file. Every change is parsed again and
 * compared with the expected result, so a file with an unexpected layout is refused instead of damaged.
 */
import { isDeepStrictEqual } from "node:util";
import { BackplaneError, isObject, type Json, type JsonObject } from "@backplane/contract";
import { invalidFileError } from "./config-file.ts";
import { ConfigSyntaxError, parseJsonc, removeJsonProperty, setJsonProperty } from "./jsonc.ts";
import type { KnownClient } from "./known-clients.ts";
import { appendTomlTable, removeTomlTable } from "./toml-table.ts";

export interface ClientConfig {
  path: string;
  client: KnownClient;
  /** The text as it is edited; for a file that does not exist or is empty, an empty document. */
  text: string;
  document: JsonObject;
}

type ParseDocument = (text: string) => JsonObject;

export async function parseClientConfig(
  client: KnownClient,
  path: string,
  text: string | null,
): Promise<ClientConfig> {
  const empty = text === null || text.trim() === "";
  const source = empty ? (client.format === "toml" ? "" : "{}\n") : text;
  const parse = await loadParser(client);
  try {
    return { path, client, text: source, document: parse(source) };
  } catch (error) {
    if (!(error instanceof ConfigSyntaxError)) throw error;
    throw invalidFileError(path, `line ${error.line} cannot be parsed, ${error.message}`);
  }
}

export function findServerEntry({ client, document }: ClientConfig, name: string): Json | undefined {
  let value: Json | undefined = document;
  for (const part of [...client.serversPath(document), name]) {
    if (!isObject(value) || !Object.hasOwn(value, part)) return undefined;
    value = value[part];
  }
  return value;
}

/**
 * Returns the text of the file with the entry. If the entry exists already, only its strings that differ are changed,
 * provided that this gives the expected result; otherwise the whole entry is replaced.
 */
export async function setServerEntry(config: ClientConfig, name: string, entry: JsonObject): Promise<string> {
  const { client, text, document } = config;
  const path = [...client.serversPath(document), name];
  const current = findServerEntry(config, name);
  const rewritten =
    client.format === "toml"
      ? appendTomlTable(current === undefined ? text : (removeTomlTable(text, path) ?? text), path, entry)
      : setJsonProperty(text, parseJsonc(text, true), path, entry);
  const edits = current === undefined ? [rewritten] : [replaceValues(text, current, entry), rewritten];
  return await chooseVerifiedEdit(config, edits, (expected) => {
    let parent = expected;
    for (const part of path.slice(0, -1)) {
      parent[part] ??= {};
      parent = parent[part] as JsonObject;
    }
    parent[name] = entry;
  });
}

/** Returns the text of the file without the entry. */
export async function removeServerEntry(config: ClientConfig, name: string): Promise<string> {
  const { client, text, document } = config;
  const path = [...client.serversPath(document), name];
  const edited =
    client.format === "toml"
      ? removeTomlTable(text, path)
      : removeJsonProperty(text, parseJsonc(text, true), path);
  return await chooseVerifiedEdit(config, [edited], (expected) => {
    let parent = expected;
    for (const part of path.slice(0, -1)) parent = parent[part] as JsonObject;
    delete parent[name];
  });
}

/**
 * Returns the candidate that `setServerEntry` turns into exactly this file, or undefined. A null candidate stands for a
 * file that does not exist. The returned candidate is the original file, whereas removing the entry could leave an
 * empty object or table behind where there was none.
 */
export async function findOriginal(
  { client, path, text, document }: ClientConfig,
  name: string,
  candidates: readonly (string | null)[],
): Promise<string | null | undefined> {
  const entry = findServerEntry({ client, path, text, document }, name) as JsonObject;
  for (const candidate of candidates) {
    try {
      const original = await parseClientConfig(client, path, candidate);
      if (findServerEntry(original, name) !== undefined) continue;
      if ((await setServerEntry(original, name, entry)) === text) return candidate;
    } catch (error) {
      // A copy that cannot be edited cannot be the original of this file.
      if (!(error instanceof BackplaneError)) throw error;
    }
  }
  return undefined;
}

/** Replaces each string that differs, wherever it occurs in the text. Null if other values differ, too. */
function replaceValues(text: string, before: Json, after: Json): string | null {
  if (isDeepStrictEqual(toPlainObjects(before), toPlainObjects(after))) return text;
  if (typeof before === "string" && typeof after === "string")
    return before === "" ? null : text.replaceAll(before, () => after);
  if (!isObject(before) || !isObject(after)) return null;
  let edited: string | null = text;
  for (const [name, value] of Object.entries(after)) {
    const old_value: Json | undefined = Object.hasOwn(before, name) ? before[name] : undefined;
    edited =
      old_value === undefined || edited === null ? null : replaceValues(edited, old_value, value as Json);
  }
  return edited;
}

/** Returns the first edit whose text parses to the document after `change`. */
async function chooseVerifiedEdit(
  { client, path, document }: ClientConfig,
  edits: readonly (string | null)[],
  change: (expected: JsonObject) => void,
): Promise<string> {
  const parse = await loadParser(client);
  const servers = client.serversPath(document).join(".");
  const expected = toPlainObjects(document) as JsonObject;
  change(expected);
  for (const edited of edits) {
    const actual = edited === null ? null : tryParse(parse, edited);
    if (edited === null || actual === null) continue;
    // In TOML, a table that contained only the entry disappears together with it.
    if (client.format === "toml") for (const table of [expected, actual]) dropEmptyTable(table, servers);
    if (isDeepStrictEqual(actual, toPlainObjects(expected))) return edited;
  }
  throw new BackplaneError(
    "client.config_invalid",
    `${path} was not changed: ${servers} is written in a way that cannot be edited safely.`,
    {
      fix: `Write ${servers} as an ordinary ${client.format === "toml" ? "table" : "object"}, or edit the file yourself.`,
    },
  );
}

function tryParse(parse: ParseDocument, text: string): JsonObject | null {
  try {
    return toPlainObjects(parse(text)) as JsonObject;
  } catch {
    return null;
  }
}

function dropEmptyTable(document: JsonObject, name: string): void {
  const table = document[name];
  if (isObject(table) && Object.keys(table).length === 0) delete document[name];
}

/** Copies the value into ordinary objects, because parsers create objects of other kinds. TOML dates are kept. */
function toPlainObjects(value: Json): Json {
  if (Array.isArray(value)) return value.map(toPlainObjects);
  if (!isObject(value) || (value as object) instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, toPlainObjects(inner as Json)]),
  );
}

async function loadParser({ format }: KnownClient): Promise<ParseDocument> {
  if (format !== "toml") return (text) => parseJsonc(text, format === "jsonc").value as JsonObject;
  const { parse, TomlError } = await import("smol-toml");
  return (text) => {
    try {
      return parse(text, { integersAsBigInt: "asNeeded" }) as JsonObject;
    } catch (error) {
      if (error instanceof TomlError) throw new ConfigSyntaxError(error.line, firstLine(error.message));
      throw error;
    }
  };
}

function firstLine(message: string): string {
  return message
    .split("\n", 1)[0]!
    .replace(/^Invalid TOML document: /, "")
    .replace(/\.$/, "");
}
