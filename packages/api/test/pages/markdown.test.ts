import { expect, test } from "vitest";

interface Span {
  type: string;
  text?: string;
  href?: string;
  spans?: Span[];
}
interface Markdown {
  parse: (text: string) => ({ type: string } & Record<string, unknown>)[];
  parseInline: (text: string) => Span[];
  safeLink: (target: string) => string | null;
}

const path = new URL("../../static/chat/markdown.js", import.meta.url).href;
const { parse, parseInline, safeLink } = (await import(path)) as Markdown;

test("parses fences, headings, lists, quotes and text", () => {
  expect(
    parse(
      "Hello\nthere\n\n# Big\n- a\n- b\n  - deep\n1. one\n2. two\n> said\n> so\n```ts\nlet x;\n\ny\n```\nend",
    ),
  ).toEqual([
    { type: "text", text: "Hello\nthere" },
    { type: "heading", level: 1, text: "Big" },
    {
      type: "list",
      ordered: false,
      start: 1,
      items: [
        { text: "a", depth: 0 },
        { text: "b", depth: 0 },
        { text: "deep", depth: 1 },
      ],
    },
    {
      type: "list",
      ordered: true,
      start: 1,
      items: [
        { text: "one", depth: 0 },
        { text: "two", depth: 0 },
      ],
    },
    { type: "quote", text: "said\nso" },
    { type: "code", language: "ts", text: "let x;\n\ny" },
    { type: "text", text: "end" },
  ]);
});

test("parses an unclosed fence as code", () => {
  expect(parse("```js\nlet a = '<b>'")).toEqual([{ type: "code", language: "js", text: "let a = '<b>'" }]);
});

test("parses code, bold, emphasis and links", () => {
  expect(parseInline("a `b` **c** *d* [e](https://example.org/f) https://example.org/g. 2 * 3 * 4")).toEqual([
    { type: "text", text: "a " },
    { type: "code", text: "b" },
    { type: "text", text: " " },
    { type: "bold", spans: [{ type: "text", text: "c" }] },
    { type: "text", text: " " },
    { type: "em", spans: [{ type: "text", text: "d" }] },
    { type: "text", text: " " },
    { type: "link", href: "https://example.org/f", text: "e" },
    { type: "text", text: " " },
    { type: "link", href: "https://example.org/g", text: "https://example.org/g" },
    { type: "text", text: ". 2 * 3 * 4" },
  ]);
});

test("creates links only for safe URLs", () => {
  const refused = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "//example.org",
    "/\\example.org",
    "blob:x",
    "relative",
  ];
  expect(refused.filter((target) => safeLink(target) !== null)).toEqual([]);
  expect(["/docs/errors#x", "https://example.org/", "mailto:a@example.org"].map(safeLink)).toEqual([
    "/docs/errors#x",
    "https://example.org/",
    "mailto:a@example.org",
  ]);
  expect(parseInline("[x](javascript:alert)")).toEqual([{ type: "text", text: "[x](javascript:alert)" }]);
});

test("parses long runs of unclosed markup within ten seconds", () => {
  const started_at = performance.now();
  for (const part of ["*", "**", "`", "[", "[a](", "> ", "- ", "**a*", "`a``"]) {
    const text = part.repeat(10_000);
    parse(text);
    parseInline(text);
  }
  expect(performance.now() - started_at).toBeLessThan(10_000);
});
