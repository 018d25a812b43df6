/**
 * Sets or removes one property of a JSON file and keeps the rest of the text: comments, trailing commas, indentation
 * and the order of properties. Only the comma after the previous property may change. The parser keeps the position of
 * each value for that reason.
 */
import type { Json, JsonObject } from "@backplane/contract";

export interface JsonNode {
  start: number;
  end: number;
  value: Json;
  /** Set for an object. */
  properties: JsonProperty[] | null;
}

interface JsonProperty {
  name: string;
  start: number;
  node: JsonNode;
  /** The position of the comma after the value, or null. */
  comma: number | null;
}

export class ConfigSyntaxError extends Error {
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

interface Edit {
  from: number;
  to: number;
  text: string;
}

const MAX_DEPTH = 500;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** Parses a document whose root is an object. Comments and trailing commas are errors unless `comments` is set. */
export function parseJsonc(text: string, comments: boolean): JsonNode {
  let at = text.startsWith("\uFEFF") ? 1 : 0;

  function fail(message: string, position = at): never {
    throw new ConfigSyntaxError(text.slice(0, position).split("\n").length, message);
  }

  function skipWhitespaceAndComments(): void {
    for (;;) {
      while (at < text.length && " \t\r\n".includes(text[at]!)) at++;
      // The caller reports a slash that does not start a comment as an unexpected character.
      if (text[at] !== "/" || !"/*".includes(text[at + 1] ?? " ")) return;
      if (!comments) fail("comments are not allowed in this file");
      const end = commentEnd(text, at);
      if (end === null) fail("a comment is not closed");
      at = end;
    }
  }

  function readString(): string {
    const start = at;
    for (at++; at < text.length && text[at] !== '"' && text[at] !== "\n"; at++) if (text[at] === "\\") at++;
    if (text[at] !== '"') fail("a string is not closed", start);
    at++;
    try {
      return JSON.parse(text.slice(start, at)) as string;
    } catch {
      return fail("a string is not valid", start);
    }
  }

  function readNode(depth: number): JsonNode {
    skipWhitespaceAndComments();
    if (depth > MAX_DEPTH) fail("the file is nested too deeply");
    const start = at;
    if (text[at] === "{") return readObject(depth, start);
    if (text[at] === "[") return readArray(depth, start);
    if (text[at] === '"') {
      const value = readString();
      return { start, end: at, value, properties: null };
    }
    SCALAR.lastIndex = at;
    const match = SCALAR.exec(text);
    if (match === null) fail(at >= text.length ? "the file ends too early" : "a value is expected");
    at += match[0].length;
    return { start, end: at, value: JSON.parse(match[0]) as Json, properties: null };
  }

  /** Reads items up to `close`; `readItem` returns a function that receives the position of the comma. */
  function readItems(close: string, readItem: () => (comma: number | null) => void): void {
    at++;
    for (let first = true; ; first = false) {
      skipWhitespaceAndComments();
      if (text[at] === close) {
        if (!first && !comments) fail("a trailing comma is not allowed in this file");
        break;
      }
      const setComma = readItem();
      skipWhitespaceAndComments();
      if (text[at] === ",") setComma(at++);
      else if (text[at] === close) {
        setComma(null);
        break;
      } else fail(`a comma or ${close} is expected`);
    }
    at++;
  }

  function readObject(depth: number, start: number): JsonNode {
    // Without a prototype, so that a property named __proto__ is a property like any other.
    const value = Object.create(null) as JsonObject;
    const properties: JsonProperty[] = [];
    readItems("}", () => {
      if (text[at] !== '"') fail("a property name in double quotes is expected");
      const property_start = at;
      const name = readString();
      skipWhitespaceAndComments();
      if (text[at] !== ":") fail("a colon is expected");
      at++;
      const node = readNode(depth + 1);
      value[name] = node.value;
      const property: JsonProperty = { name, start: property_start, node, comma: null };
      properties.push(property);
      return (comma) => {
        property.comma = comma;
      };
    });
    return { start, end: at, value, properties };
  }

  function readArray(depth: number, start: number): JsonNode {
    const value: Json[] = [];
    readItems("]", () => {
      value.push(readNode(depth + 1).value);
      return () => undefined;
    });
    return { start, end: at, value, properties: null };
  }

  skipWhitespaceAndComments();
  if (text[at] !== "{") fail("an object is expected");
  const root = readNode(0);
  skipWhitespaceAndComments();
  if (at < text.length) fail("nothing may follow the closing brace");
  return root;
}

/** Sets the property at `path` and creates missing parent objects. Null if a value on the path is not an object. */
export function setJsonProperty(
  text: string,
  root: JsonNode,
  path: readonly string[],
  value: JsonObject,
): string | null {
  let parent = root;
  for (const [i, name] of path.entries()) {
    if (parent.properties === null) return null;
    // If a name occurs several times, its last occurrence is in effect.
    const property = parent.properties.findLast((property) => property.name === name);
    const is_last = i === path.length - 1;
    if (property === undefined) {
      const nested = path.slice(i + 1).reduceRight<JsonObject>((inner, key) => ({ [key]: inner }), value);
      return applyEdits(text, insertionEdits(text, parent, name, nested));
    }
    if (is_last) {
      const { start, end } = property.node;
      const inline = !text.slice(property.start, end).includes("\n") && isInline(text, parent);
      return applyEdits(text, [
        { from: start, to: end, text: format(text, value, lineIndent(text, property.start), inline) },
      ]);
    }
    parent = property.node;
  }
  return null;
}

/** Removes the property at `path`; returns the text unchanged if there is none. */
export function removeJsonProperty(text: string, root: JsonNode, path: readonly string[]): string {
  let parent = root;
  for (const [i, name] of path.entries()) {
    const siblings = parent.properties ?? [];
    const index = siblings.findLastIndex((property) => property.name === name);
    if (index < 0) return text;
    if (i === path.length - 1) return applyEdits(text, removalEdits(text, parent, siblings, index));
    parent = siblings[index]!.node;
  }
  return text;
}

function insertionEdits(text: string, parent: JsonNode, name: string, value: JsonObject): Edit[] {
  const siblings = parent.properties!;
  const last = siblings.at(-1);
  const eol = lineEnding(text);
  if (last === undefined) {
    const outer = lineIndent(text, parent.start);
    const indent = outer + indentUnit(text);
    const written = `${eol}${indent}${JSON.stringify(name)}: ${format(text, value, indent, false)}`;
    const inside = text.slice(parent.start + 1, parent.end - 1);
    return inside.trim() === ""
      ? [{ from: parent.start + 1, to: parent.end - 1, text: `${written}${eol}${outer}` }]
      : [{ from: parent.start + 1, to: parent.start + 1, text: written }];
  }
  if (isInline(text, parent)) {
    const from = (last.comma ?? last.node.end - 1) + 1;
    const written = ` ${JSON.stringify(name)}: ${format(text, value, "", true)}`;
    return [{ from, to: from, text: last.comma === null ? `,${written}` : `${written},` }];
  }
  const indent = lineIndent(text, last.start);
  const written = `${eol}${indent}${JSON.stringify(name)}: ${format(text, value, indent, false)}`;
  // A comment after the last property stays on its line.
  const end = endOfComments(text, (last.comma ?? last.node.end - 1) + 1);
  if (last.comma !== null) return [{ from: end, to: end, text: `${written},` }];
  return [
    { from: last.node.end, to: last.node.end, text: "," },
    { from: end, to: end, text: written },
  ];
}

function removalEdits(
  text: string,
  parent: JsonNode,
  siblings: readonly JsonProperty[],
  index: number,
): Edit[] {
  const { start, node, comma } = siblings[index]!;
  const previous = siblings[index - 1];
  const to = comma === null ? node.end : comma + 1;
  if (siblings.length === 1) {
    const remainder = text.slice(parent.start + 1, start) + text.slice(to, parent.end - 1);
    if (remainder.trim() === "") return [{ from: parent.start + 1, to: parent.end - 1, text: "" }];
  }
  let from = start;
  while (from > 0 && " \t".includes(text[from - 1]!)) from--;
  if (text[from - 1] === "\n") from -= text[from - 2] === "\r" ? 2 : 1;
  const removal = { from, to, text: "" };
  if (comma !== null || previous === undefined || previous.comma === null) return [removal];
  return [{ from: previous.comma, to: previous.comma + 1, text: "" }, removal];
}

/** Whether the first property is on the line of the opening brace. */
function isInline(text: string, { start, properties }: JsonNode): boolean {
  const first = properties?.[0];
  return first !== undefined && !text.slice(start, first.start).includes("\n");
}

function format(text: string, value: Json, indent: string, inline: boolean): string {
  if (inline) return JSON.stringify(value);
  return JSON.stringify(value, null, indentUnit(text))
    .split("\n")
    .map((line, i) => (i === 0 ? line : indent + line))
    .join(lineEnding(text));
}

/** The whitespace at the start of the line that contains `position`. */
function lineIndent(text: string, position: number): string {
  const line = text.slice(text.lastIndexOf("\n", position - 1) + 1, position);
  return /^[ \t]*/.exec(line)![0];
}

/** One step of indentation: that of the first indented property. */
function indentUnit(text: string): string {
  return /\n([ \t]+)"/.exec(text)?.[1] ?? "  ";
}

function lineEnding(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

/** The end of the comments that follow `position` after spaces and tabs only; `position` if there are none. */
function endOfComments(text: string, position: number): number {
  let at = position;
  let end = position;
  for (;;) {
    while (" \t".includes(text[at] ?? "x")) at++;
    const closed = text[at] === "/" ? commentEnd(text, at) : null;
    if (closed === null) return end;
    at = closed;
    end = closed;
  }
}

/** The position after the comment that starts at `start`; null if it is not a comment or is not closed. */
function commentEnd(text: string, start: number): number | null {
  if (text[start + 1] === "/") {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    return text[end - 1] === "\r" ? end - 1 : end;
  }
  if (text[start + 1] !== "*") return null;
  const end = text.indexOf("*/", start + 2);
  return end < 0 ? null : end + 2;
}

function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = text;
  // Starts at the end, so that positions stay valid. Of two edits at one position, the later text comes last.
  for (const { from, to, text: written } of edits.toReversed().toSorted((a, b) => b.from - a.from))
    result = result.slice(0, from) + written + result.slice(to);
  return result;
}
