import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { describeTools } from "../../../src/dialects/mcp/describe-tools.ts";

const negotiated = { capabilities: { tools: {} }, server: {}, instructions: null } as never;
const permissions = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
} as const;
const pagedServer = (page: (n: number) => JsonObject) => {
  let n = 0;
  return {
    pages: () => n,
    describe: () =>
      describeTools({ package_id: "acme/x", config: {} }, negotiated, permissions as never, true, async () =>
        page(n++),
      ),
  };
};

test("stops reading tool descriptions at a size limit", async () => {
  const inputSchema = { type: "object", description: "x".repeat(1_000_000) };
  const endless = pagedServer((n) => ({ tools: [{ name: `t${n}`, inputSchema }], nextCursor: `${n}` }));
  await expect(endless.describe()).rejects.toMatchObject({ code: "frame_too_large" });
  expect(endless.pages()).toBeLessThan(20);
});

test("limits the number of warnings", async () => {
  const nameless = pagedServer(() => ({ tools: Array.from({ length: 5_000 }, () => ({})) }));
  const { exports, warnings } = await nameless.describe();
  expect(exports).toEqual([]);
  expect(warnings).toHaveLength(100);
});

test("leaves out only the tool whose arguments cannot be sent as headers", async () => {
  const bad = { type: "object", properties: { a: { type: "number", "x-mcp-header": "A" } } };
  const good = { type: "object", properties: { a: { type: "string", "x-mcp-header": "A" } } };
  const tools = [
    { name: "bad", inputSchema: bad },
    { name: "good", inputSchema: good },
  ];
  const described = await pagedServer(() => ({ tools })).describe();
  expect(described.exports.map(({ tool }) => [tool.native_name, tool.param_headers])).toEqual([
    ["good", [{ header: "A", path: ["a"] }]],
  ]);
  expect(described.warnings[0]).toContain('The tool "bad" is left out');
  const piped = await describeTools(
    { package_id: "acme/x", config: {} },
    negotiated,
    permissions as never,
    false,
    async () => ({
      tools,
    }),
  );
  expect(piped.exports).toHaveLength(2);
});

verifies("server.names", "names tools after the name of the binding, without repeating it", async () => {
  const inputSchema = { type: "object" };
  const names = ["browser_click", "playwright_open", "playwright", "Playwright-close", "close"];
  const idsOf = async (config: JsonObject) => {
    const server = { package_id: "playwright/mcp", config };
    const { exports } = await describeTools(server, negotiated, permissions as never, false, async () => ({
      tools: names.map((name) => ({ name, inputSchema })),
    }));
    return exports.map(({ id }) => id);
  };
  expect(await idsOf({ name: "playwright" })).toEqual([
    "mcp_playwright_browser_click",
    "mcp_playwright_open",
    "mcp_playwright_playwright",
    "mcp_playwright_Playwright-close",
    "mcp_playwright_close",
  ]);
  // If the binding has no name of its own, the tool names are not shortened.
  expect(await idsOf({})).toEqual(names.map((name) => `mcp_mcp_${name}`));
});
