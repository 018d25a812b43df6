/**
 * Adds one table to a TOML file, or removes one with the empty line before it. All other bytes are kept. The caller
 * parses the result again.
 */
import type { JsonObject } from "@backplane/contract";

/** Appends `[path]` with the values; nested objects become inline tables. */
export function appendTomlTable(text: string, path: readonly string[], values: JsonObject): string {
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  const gap = text === "" || text === "\uFEFF" ? "" : text.endsWith("\n") ? eol : eol + eol;
  const lines = [
    `[${path.map(keyText).join(".")}]`,
    ...Object.entries(values).map(([name, value]) => `${keyText(name)} = ${valueText(value as TomlValue)}`),
  ];
  return `${text}${gap}${lines.join(eol)}${eol}`;
}

/**
 * Removes the table and its sub-tables. Comments before the next table belong to that table and stay. Null if the file
 * has no header of the table, for example because it is written as an inline table.
 */
export function removeTomlTable(text: string, path: readonly string[]): string | null {
  const lines = text.split(/(?<=\n)/);
  const kept_lines: string[] = [];
  let has_table = false;
  for (let i = 0; i < lines.length; ) {
    if (!isHeaderOf(lines[i]!, path)) {
      kept_lines.push(lines[i++]!);
      continue;
    }
    has_table = true;
    let end = i + 1;
    for (let next = end; next < lines.length && !isHeader(lines[next]!); next++)
      if (!/^\s*(#|$)/.test(lines[next]!)) end = next + 1;
    i = end;
    // Removes the empty line that `appendTomlTable` added before the table.
    if (kept_lines.at(-1)?.trim() === "" && (i >= lines.length || lines[i]!.trim() === "")) kept_lines.pop();
  }
  return has_table ? kept_lines.join("") : null;
}

type TomlValue = string | number | boolean | TomlValue[] | { [name: string]: TomlValue };

function valueText(value: TomlValue): string {
  if (Array.isArray(value)) return `[${value.map(valueText).join(", ")}]`;
  // The escapes of a JSON string are escapes of a TOML string as well.
  if (typeof value !== "object") return JSON.stringify(value);
  const pairs = Object.entries(value).map(([name, inner]) => `${keyText(name)} = ${valueText(inner)}`);
  return `{ ${pairs.join(", ")} }`;
}

function keyText(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name);
}

function isHeader(line: string): boolean {
  return /^\s*\[/.test(line);
}

function isHeaderOf(line: string, path: readonly string[]): boolean {
  const header = /^\s*\[(?!\[)([^\]]+)\]\s*(#.*)?\s*$/.exec(line);
  if (header === null) return false;
  const parts = [...header[1]!.matchAll(/\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)/g)].map(
    (part) => part[1] ?? part[2] ?? part[3],
  );
  return path.every((name, i) => parts[i] === name);
}
