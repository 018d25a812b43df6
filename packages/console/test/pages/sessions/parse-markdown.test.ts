import { expect, test } from "vitest";
import { parseMarkdown, parseSpans, safeHref } from "../../../src/pages/sessions/parse-markdown.ts";

test("parses the blocks of Markdown, including one that is not complete yet", () => {
  expect(
    parseMarkdown("# A\ntext\n\n- one\n- two\n  - deep\n1. first\n```ts\nlet x\n```\n---\n> said"),
  ).toEqual([
    { type: "heading", level: 1, spans: [{ type: "text", text: "A" }] },
    { type: "paragraph", spans: [{ type: "text", text: "text" }] },
    {
      type: "list",
      start: null,
      items: [
        { checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "one" }] }] },
        {
          checked: null,
          blocks: [
            { type: "paragraph", spans: [{ type: "text", text: "two" }] },
            {
              type: "list",
              start: null,
              items: [
                { checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "deep" }] }] },
              ],
            },
          ],
        },
      ],
    },
    {
      type: "list",
      start: 1,
      items: [{ checked: null, blocks: [{ type: "paragraph", spans: [{ type: "text", text: "first" }] }] }],
    },
    { type: "code", language: "ts", text: "let x" },
    { type: "rule" },
    { type: "quote", blocks: [{ type: "paragraph", spans: [{ type: "text", text: "said" }] }] },
  ]);
  expect(parseMarkdown("```js\nunfinished")).toEqual([{ type: "code", language: "js", text: "unfinished" }]);
  const [intro, table] = parseMarkdown("intro\n| a | b |\n|:-:|--:|\n| x \\| y | 2 |");
  expect(intro!.type).toBe("paragraph");
  expect(table).toMatchObject({ type: "table", align: ["center", "right"] });
  expect(table).toMatchObject({ rows: [[[{ type: "text", text: "x | y" }], [{ type: "text", text: "2" }]]] });
  expect(parseMarkdown("- [x] done\n- [ ] open")).toMatchObject([
    { items: [{ checked: true }, { checked: false }] },
  ]);
});

test("keeps HTML and unsafe links as text, and turns images into links", () => {
  expect(parseSpans("<b>x</b> [y](javascript:alert(1)) ![z](https://e.example/z.png)")).toEqual([
    { type: "text", text: "<b>x</b> [y](javascript:alert(1)) " },
    { type: "link", href: "https://e.example/z.png", spans: [{ type: "text", text: "z" }] },
  ]);
  expect(parseSpans("**a *b*** `c*d*` snake_case_name \\*e\\*")).toEqual([
    {
      type: "strong",
      spans: [
        { type: "text", text: "a " },
        { type: "emphasis", spans: [{ type: "text", text: "b" }] },
      ],
    },
    { type: "text", text: " " },
    { type: "code", text: "c*d*" },
    { type: "text", text: " snake_case_name *e*" },
  ]);
  for (const target of ["javascript:alert(1)", "data:text/html,x", "//evil.example", "vbscript:x"])
    expect(safeHref(target)).toBeNull();
  expect(safeHref("/docs/errors")).toBe("/docs/errors");
});

test("parses hostile text in bounded time and depth", () => {
  const started = performance.now();
  parseMarkdown(">".repeat(10_000));
  parseMarkdown("**a ".repeat(20_000));
  parseMarkdown("[".repeat(20_000));
  parseMarkdown(`${"  ".repeat(2_000)}- deep\n`.repeat(50));
  expect(performance.now() - started).toBeLessThan(5_000);
});
