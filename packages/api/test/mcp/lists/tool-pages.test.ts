import { expect, test } from "vitest";
import { createToolPages } from "../../../src/mcp/lists/tool-pages.ts";
import { createCatalogTool } from "../../support/catalog-tool.ts";

const createNamedTools = (names: string[]) => names.map((name) => ({ name, tool: createCatalogTool("t") }));

test("pages through tool names with any characters", () => {
  const tools = createNamedTools(["a b", "příkaz", "x:y", "漢字"]);
  const pages = createToolPages(1);
  const all_tools: unknown[] = [];
  let cursor: unknown;
  do {
    const page = pages.page(tools, cursor);
    all_tools.push(...(page.tools as { name: string }[]).map(({ name }) => name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  expect(all_tools).toEqual(["a b", "příkaz", "x:y", "漢字"]);
});

test("pages tools by name without gaps or duplicates", () => {
  const tools = createNamedTools(Array.from({ length: 7 }, (_, n) => `tool_${n}`));
  const pages = createToolPages(3);
  const names: unknown[] = [];
  let cursor: unknown;
  let count = 0;
  do {
    const page = pages.page(tools, cursor);
    names.push(...(page.tools as { name: string }[]).map(({ name }) => name));
    cursor = page.nextCursor;
    count++;
  } while (cursor !== undefined);
  expect([count, names]).toEqual([3, tools.map(({ name }) => name)]);
});

test.each(["", "!", "YQ==", "a".repeat(2_000), 7, null])("rejects %j as a cursor", (cursor) => {
  expect(() => createToolPages(1).page(createNamedTools(["a"]), cursor)).toThrow(
    "params.cursor is not a cursor",
  );
});
