import { expect, test } from "vitest";
import { createToolPages } from "../../../src/mcp/lists/tool-pages.ts";
import { catalogTool } from "../../support/catalog-tool.ts";

const namedTools = (names: string[]) => names.map((name) => ({ name, tool: catalogTool("t") }));

test("pages through tool names with any characters", () => {
  const tools = namedTools(["a b", "příkaz", "x:y", "漢字"]);
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

test.each(["", "!", "YQ==", "a".repeat(2_000), 7, null])("rejects %j as a cursor", (cursor) => {
  expect(() => createToolPages(1).page(namedTools(["a"]), cursor)).toThrow("params.cursor is not a cursor");
});
