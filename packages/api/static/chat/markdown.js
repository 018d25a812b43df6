// The subset of Markdown that models write: fences, inline code, bold, emphasis, headings, lists, quotes and links. The
// text is parsed into plain values, which then become nodes, so that it can never inject markup.
import { el } from "./dom.js";

const FENCE = /^\s*(```+|~~~+)\s*(\S*)/;
const HEADING = /^(#{1,4})\s+(.*)$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;

/** Blocks: {type: code|heading|list|quote|text, …}. */
export function parse(text) {
  const lines = text.split("\n");
  const blocks = [];
  let at = 0;
  const last = () => blocks.at(-1);
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    if (fence !== null) {
      const code = [];
      for (at++; at < lines.length && !lines[at].trimStart().startsWith(fence[1]); at++) code.push(lines[at]);
      at++;
      blocks.push({ type: "code", language: fence[2], text: code.join("\n") });
      continue;
    }
    at++;
    const heading = HEADING.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === "") blocks.push({ type: "gap" });
    else if (heading !== null) blocks.push({ type: "heading", level: heading[1].length, text: heading[2] });
    else if (item !== null) {
      const ordered = item[2] !== undefined;
      if (last()?.type !== "list" || last().ordered !== ordered)
        blocks.push({ type: "list", ordered, start: ordered ? Number(item[2]) : 1, items: [] });
      last().items.push({ text: item[3], depth: item[1].length > 1 ? 1 : 0 });
    } else if (line.startsWith(">")) {
      const quoted = line.replace(/^>\s?/, "");
      if (last()?.type === "quote") last().text += `\n${quoted}`;
      else blocks.push({ type: "quote", text: quoted });
    } else if (last()?.type === "text") last().text += `\n${line}`;
    else blocks.push({ type: "text", text: line });
  }
  return blocks.filter(({ type }) => type !== "gap");
}

const INLINE =
  /(`+)(.+?)\1|\*\*(?=\S)(.+?)\*\*|(?<![\w*])\*(?=\S)([^*\n]+?)\*(?![\w*])|\[([^\]\n]+)\]\(([^\s()]+)\)|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]])/g;

/** Spans: {type: text|code|bold|em|link, …}. */
export function parseInline(text) {
  const spans = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) spans.push({ type: "text", text: text.slice(end, match.index) });
    end = match.index + match[0].length;
    const [match_text, , code, bold, em, label, target, bare] = match;
    if (code !== undefined) spans.push({ type: "code", text: code.trim() === "" ? code : code.trim() });
    else if (bold !== undefined) spans.push({ type: "bold", spans: parseInline(bold) });
    else if (em !== undefined) spans.push({ type: "em", spans: parseInline(em) });
    else {
      const href = safeLink(target ?? bare);
      spans.push(
        href === null ? { type: "text", text: match_text } : { type: "link", href, text: label ?? bare },
      );
    }
  }
  if (end < text.length) spans.push({ type: "text", text: text.slice(end) });
  return spans;
}

/** Null for unsafe URLs such as `javascript:`, which stay text. */
export function safeLink(target) {
  if (/^\/(?![/\\])/.test(target)) return target;
  try {
    const { protocol, href } = new URL(target);
    return protocol === "http:" || protocol === "https:" || protocol === "mailto:" ? href : null;
  } catch {
    return null;
  }
}

export function markdown(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...parse(text).map(blockNode));
  return fragment;
}

function blockNode(block) {
  switch (block.type) {
    case "code":
      return el(
        "pre",
        { class: "fence", tabindex: "0", "aria-label": block.language ? `Code, ${block.language}` : "Code" },
        el("code", {}, block.text),
      );
    case "heading":
      return el(`h${block.level + 2}`, {}, ...inline(block.text));
    case "quote":
      return el("blockquote", {}, ...inline(block.text));
    case "list":
      return el(
        block.ordered ? "ol" : "ul",
        block.ordered && block.start !== 1 ? { start: block.start } : {},
        ...block.items.map(({ text, depth }) => el("li", { class: depth > 0 && "deep" }, ...inline(text))),
      );
    default:
      return el("p", {}, ...inline(block.text));
  }
}

function inline(text) {
  return parseInline(text).map(spanNode);
}

function spanNode(span) {
  switch (span.type) {
    case "code":
      return el("code", {}, span.text);
    case "bold":
      return el("strong", {}, ...span.spans.map(spanNode));
    case "em":
      return el("em", {}, ...span.spans.map(spanNode));
    case "link":
      return el("a", { href: span.href, target: "_blank", rel: "noopener noreferrer" }, span.text);
    default:
      return document.createTextNode(span.text);
  }
}
