/**
 * Finds the line of each value in a TOML text, for error messages; the parser returns values without positions. The
 * text was accepted by the parser, so its syntax is not checked again. Supports tables, array tables, dotted keys,
 * inline tables and values over several lines.
 */
export type TomlPath = readonly (string | number)[];

/** No valid manifest is deeper. Recording every path of a deeper text would take quadratic time. */
const MAX_DEPTH = 16;

export interface TomlLines {
  /** The line of the value; for a missing value, the line of the nearest enclosing table. */
  lineOf(path: TomlPath): number;
}

/** `exports[1].permissions.network`, as a person would write it. */
export function pathText(path: TomlPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else {
      const name = /^[A-Za-z0-9_-]+$/.test(part) ? part : JSON.stringify(part);
      text += text === "" ? name : `.${name}`;
    }
  }
  return text;
}

export function findLines(toml: string): TomlLines {
  const lines = scan(toml);
  return {
    lineOf(path) {
      for (let length = path.length; length > 0; length--) {
        const line = lines.get(pathText(path.slice(0, length)));
        if (line !== undefined) return line;
      }
      return 1;
    },
  };
}

function scan(toml: string): Map<string, number> {
  const lines = new Map<string, number>();
  /** The number of `[[name]]` headers so far, by path. */
  const counts = new Map<string, number>();
  let at = 0;
  let line = 1;
  let table: TomlPath = [];

  /** Extends a path and records its line. Beyond the maximum depth the path stays the same. */
  const extend = (path: TomlPath, part: string | number): TomlPath => {
    if (path.length >= MAX_DEPTH) return path;
    const longer = [...path, part];
    const key = pathText(longer);
    if (!lines.has(key)) lines.set(key, line);
    return longer;
  };
  const step = (count = 1) => {
    for (; count > 0 && at < toml.length; count--) if (toml[at++] === "\n") line++;
  };
  const skipBlank = () => {
    for (;;) {
      const char = toml[at];
      if (char === "#") while (at < toml.length && toml[at] !== "\n") at++;
      else if (char === " " || char === "\t" || char === "\r" || char === "\n") step();
      else return;
    }
  };
  const skipSpace = () => {
    while (toml[at] === " " || toml[at] === "\t") at++;
  };

  const readQuoted = (): string => {
    const quote = toml[at] as string;
    const triple = toml.startsWith(quote.repeat(3), at);
    const end = triple ? quote.repeat(3) : quote;
    const start = at + end.length;
    step(end.length);
    while (at < toml.length && !toml.startsWith(end, at)) step(quote === '"' && toml[at] === "\\" ? 2 : 1);
    const text = toml.slice(start, at);
    step(end.length);
    // The content of a multi-line string may end with up to two quotes.
    if (triple) while (toml[at] === quote) at++;
    return text;
  };

  const readKey = (): string[] => {
    const parts: string[] = [];
    for (;;) {
      skipSpace();
      if (toml[at] === '"' || toml[at] === "'") parts.push(readQuoted());
      else {
        const start = at;
        while (at < toml.length && /[A-Za-z0-9_-]/.test(toml[at] as string)) at++;
        parts.push(toml.slice(start, at));
      }
      skipSpace();
      if (toml[at] !== ".") return parts;
      at++;
    }
  };

  const readPair = (prefix: TomlPath) => {
    let path = prefix;
    for (const part of readKey()) path = extend(path, part);
    at++; // "="
    skipSpace();
    readValue(path);
  };

  const readList = (path: TomlPath) => {
    at++;
    for (let index = 0; at < toml.length; index++) {
      skipBlank();
      if (toml[at] === "]") break;
      const item = extend(path, index);
      const previous = at;
      readValue(item);
      if (at === previous) at++;
      skipBlank();
      if (toml[at] === ",") at++;
    }
    at++;
  };

  const readInlineTable = (path: TomlPath) => {
    at++;
    while (at < toml.length) {
      skipBlank();
      if (toml[at] === "}") break;
      readPair(path);
      skipBlank();
      if (toml[at] === ",") at++;
    }
    at++;
  };

  const readValue = (path: TomlPath) => {
    const char = toml[at];
    if (char === "[") readList(path);
    else if (char === "{") readInlineTable(path);
    else if (char === '"' || char === "'") readQuoted();
    else while (at < toml.length && !/[,\]}#\n]/.test(toml[at] as string)) at++;
  };

  /** A header refers to the last element of every array table in its path. */
  const enterTable = (keys: string[], is_list: boolean): TomlPath => {
    let path: TomlPath = [];
    keys.forEach((key, index) => {
      path = extend(path, key);
      const name = pathText(path);
      if (index === keys.length - 1 && is_list) counts.set(name, (counts.get(name) ?? 0) + 1);
      const count = counts.get(name);
      if (count !== undefined) path = extend(path, count - 1);
    });
    return path;
  };

  for (;;) {
    skipBlank();
    if (at >= toml.length) return lines;
    if (toml[at] === "[") {
      const is_list = toml[at + 1] === "[";
      at += is_list ? 2 : 1;
      table = enterTable(readKey(), is_list);
      at += is_list ? 2 : 1;
    } else readPair(table);
  }
}
