import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
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
    describe: () => describeTools("acme/x", negotiated, permissions as never, true, async () => page(n++)),
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
  const piped = await describeTools("acme/x", negotiated, permissions as never, false, async () => ({
    tools,
  }));
  expect(piped.exports).toHaveLength(2);
});
