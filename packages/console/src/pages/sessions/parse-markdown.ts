/**
 * The Markdown that models write, parsed into plain values. Markup of other kinds, such as HTML, stays text, so a
 * message cannot inject elements. Images become links, because the page must not load what a message refers to.
 */

export type MarkdownBlock =
  | { type: "paragraph"; spans: Span[] }
  | { type: "heading"; level: number; spans: Span[] }
  | { type: "code"; language: string; text: string }
  | { type: "quote"; blocks: MarkdownBlock[] }
  | { type: "list"; start: number | null; items: MarkdownItem[] }
  | { type: "table"; align: ("left" | "right" | "center")[]; head: Span[][]; rows: Span[][][] }
  | { type: "rule" };

interface MarkdownItem {
  /** Null if the item has no checkbox. */
  checked: boolean | null;
  blocks: MarkdownBlock[];
}

export type Span =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "strong" | "emphasis" | "strike"; spans: Span[] }
  | { type: "link"; href: string; spans: Span[] }
  | { type: "break" };

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const CHECKBOX = /^\[([ xX])\]\s+/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
/** A longer piece of text is not searched for inline markup. */
const MAX_INLINE = 8_000;
const MAX_DEPTH = 8;

export function parseMarkdown(text: string, depth = 0): MarkdownBlock[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: MarkdownBlock[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (line.trim() === "") {
      at++;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/** Returns the block that starts at this line, and the line after it. */
function readBlock(lines: readonly string[], at: number, depth: number): [MarkdownBlock, number] {
  const line = lines[at]!;
  const fence = FENCE.exec(line);
  if (fence !== null) return readFence(lines, at, fence[1]!, fence[2]!);
  const heading = HEADING.exec(line);
  if (heading !== null)
    return [{ type: "heading", level: heading[1]!.length, spans: parseSpans(heading[2]!) }, at + 1];
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < MAX_DEPTH && line.trimStart().startsWith(">")) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at, depth);
  if (startsTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

/** A fence that is not closed yet, because the answer is streaming, ends with the text. */
function readFence(
  lines: readonly string[],
  at: number,
  mark: string,
  language: string,
): [MarkdownBlock, number] {
  const code: string[] = [];
  const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next]!)) code.push(lines[next++]!);
  return [{ type: "code", language, text: code.join("\n") }, next + 1];
}

function readQuote(lines: readonly string[], at: number, depth: number): [MarkdownBlock, number] {
  const quoted: string[] = [];
  let next = at;
  while (next < lines.length && lines[next]!.trimStart().startsWith(">"))
    quoted.push(lines[next++]!.trimStart().replace(/^> ?/, ""));
  return [{ type: "quote", blocks: parseMarkdown(quoted.join("\n"), depth + 1) }, next];
}

/** Lines that are indented more than the marker of an item belong to the item. */
function readList(lines: readonly string[], at: number, depth: number): [MarkdownBlock, number] {
  const [, first_indent, , number] = ITEM.exec(lines[at]!)!;
  const ordered = number !== undefined;
  const items: string[][] = [];
  let next = at;
  while (next < lines.length) {
    const line = lines[next]!;
    const item = ITEM.exec(line);
    const indent = indentOf(line);
    if (item !== null && indent <= first_indent!.length + 1 && !RULE.test(line)) {
      if ((item[3] !== undefined) !== ordered || indent < first_indent!.length) break;
      items.push([item[4]!]);
    } else if (line.trim() === "") {
      const following = lines[next + 1] ?? "";
      const continues = indentOf(following) > first_indent!.length || ITEM.test(following);
      if (following.trim() === "" || !continues) break;
      items.at(-1)!.push("");
    } else if (indent > first_indent!.length) items.at(-1)!.push(line);
    else break;
    next++;
  }
  const block: MarkdownBlock = {
    type: "list",
    start: ordered ? Number(number) : null,
    items: items.map((own) => readItem(own, depth)),
  };
  return [block, next];
}

function readItem(lines: readonly string[], depth: number): MarkdownItem {
  const [first = "", ...rest] = lines;
  const box = CHECKBOX.exec(first);
  const indents = rest.filter((line) => line.trim() !== "").map(indentOf);
  const indent = indents.length === 0 ? 0 : Math.min(...indents);
  const text = [first.replace(CHECKBOX, ""), ...rest.map((line) => line.slice(indent))].join("\n");
  return { checked: box === null ? null : box[1] !== " ", blocks: parseMarkdown(text, depth + 1) };
}

function startsTable(lines: readonly string[], at: number): boolean {
  const rule = lines[at + 1] ?? "";
  return lines[at]!.includes("|") && rule.includes("-") && TABLE_RULE.test(rule);
}

function readTable(lines: readonly string[], at: number): [MarkdownBlock, number] {
  const head = cellsOf(lines[at]!);
  const align = cellsOf(lines[at + 1]!).map((cell) => {
    if (!cell.endsWith(":")) return "left" as const;
    return cell.startsWith(":") ? ("center" as const) : ("right" as const);
  });
  const rows: Span[][][] = [];
  let next = at + 2;
  for (; next < lines.length && lines[next]!.includes("|") && lines[next]!.trim() !== ""; next++) {
    const cells = cellsOf(lines[next]!);
    rows.push(head.map((_, column) => parseSpans(cells[column] ?? "")));
  }
  return [{ type: "table", align, head: head.map((cell) => parseSpans(cell)), rows }, next];
}

function cellsOf(line: string): string[] {
  const inner = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readParagraph(lines: readonly string[], at: number, depth: number): [MarkdownBlock, number] {
  const text = [lines[at]!.trim()];
  let next = at + 1;
  while (next < lines.length && lines[next]!.trim() !== "" && !startsBlock(lines, next, depth))
    text.push(lines[next++]!.trim());
  return [{ type: "paragraph", spans: parseSpans(text.join("\n")) }, next];
}

function startsBlock(lines: readonly string[], at: number, depth: number): boolean {
  const line = lines[at]!;
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || startsTable(lines, at)) return true;
  if (depth >= MAX_DEPTH) return false;
  return line.trimStart().startsWith(">") || ITEM.test(line);
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

const INLINE = new RegExp(
  [
    /\\([\\`*_{}[\]()#+\-.!|~<>])/, // 1 an escaped character
    /(`+)(.+?)(?<!`)\2(?!`)/, // 2, 3 code
    /\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\*)/, // 4 strong
    /(?<![\w_])__(?=\S)(.+?)(?<=\S)__(?![\w_])/, // 5 strong
    /\*(?=[^\s*])([^*\n]+?)(?<=\S)\*(?!\*)/, // 6 emphasis
    /(?<![\w_])_(?=[^\s_])([^_\n]+?)(?<=\S)_(?![\w_])/, // 7 emphasis
    /~~(?=\S)(.+?)(?<=\S)~~/, // 8 strike
    /!?\[([^\]\n]*)\]\(<?([^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"\n]*")?\)/, // 9, 10 link or image
    /(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]*_])/, // 11 a bare link
    /(\n)/, // 12 a new line
  ]
    .map(({ source }) => source)
    .join("|"),
  "gs",
);

export function parseSpans(text: string, depth = 0): Span[] {
  if (text.length > MAX_INLINE || depth > MAX_DEPTH) return [{ type: "text", text }];
  const spans: Span[] = [];
  let end = 0;
  const addText = (added: string) => {
    if (added === "") return;
    const last = spans.at(-1);
    if (last?.type === "text") last.text += added;
    else spans.push({ type: "text", text: added });
  };
  for (const match of text.matchAll(INLINE)) {
    addText(text.slice(end, match.index));
    end = match.index + match[0].length;
    const span = readSpan(match, depth);
    if (span.type === "text") addText(span.text);
    else spans.push(span);
  }
  addText(text.slice(end));
  return spans;
}

function readSpan(match: RegExpMatchArray, depth: number): Span {
  const [whole, escaped, , code, strong, strong_2, em, em_2, strike, label, target, bare] = match;
  if (escaped !== undefined) return { type: "text", text: escaped };
  if (code !== undefined) return { type: "code", text: code.trim() === "" ? code : code.trim() };
  const inner = (text: string) => parseSpans(text, depth + 1);
  if (strong !== undefined || strong_2 !== undefined)
    return { type: "strong", spans: inner(strong ?? strong_2!) };
  if (em !== undefined || em_2 !== undefined) return { type: "emphasis", spans: inner(em ?? em_2!) };
  if (strike !== undefined) return { type: "strike", spans: inner(strike) };
  if (whole === "\n") return { type: "break" };
  const href = safeHref(target ?? bare!);
  if (href === null) return { type: "text", text: whole };
  if (bare !== undefined) return { type: "link", href, spans: [{ type: "text", text: bare }] };
  return { type: "link", href, spans: label === "" ? [{ type: "text", text: target! }] : inner(label!) };
}

/** Null for a link that a page must not offer, such as `javascript:`; it stays text. */
export function safeHref(target: string): string | null {
  if (/^\/(?![/\\])/.test(target) || target.startsWith("#")) return target;
  try {
    const { protocol, href } = new URL(target);
    return ["http:", "https:", "mailto:"].includes(protocol) ? href : null;
  } catch {
    return null;
  }
}
