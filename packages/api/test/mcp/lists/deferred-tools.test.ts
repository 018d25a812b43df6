/** Deferred tools over MCP: the list contains tool_search and tool_call in place of them, in both revisions. */
import type { JsonObject } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { withoutDeferred } from "../../../src/mcp/lists/deferred-tools.ts";
import { startBoundApi } from "../../support/bound-api.ts";
import { createCatalogTool } from "../../support/catalog-tool.ts";
import { connect, type McpClient } from "../../support/mcp-client.ts";
import type { TestApi } from "../../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["echo", "ask"]));
  await api.call("PATCH", "/v1/policy", { body: { tool_token_budget: 0, pinned_tools: ["ask"] } });
});
afterAll(() => api.close());

describe.each(["2025-11-25", "2026-07-28"])("MCP revision %s", (revision) => {
  let client: McpClient;
  beforeAll(async () => {
    client = await connect(base, revision);
  });
  const callTool = async (name: string, input: JsonObject) =>
    (await client.ask("tools/call", { name, arguments: input })).last.result;
  const listNames = async () =>
    ((await client.ask("tools/list")).last.result.tools as JsonObject[]).map(({ name }) => name);

  verifies(
    "client.profiles",
    "lists pinned tools with a search tool, finds a deferred tool and calls it",
    async () => {
      expect(await listNames()).toEqual(["ask", "tool_call", "tool_search"]);
      const search = await callTool("tool_search", { query: "echo" });
      expect(search.structuredContent.tools).toMatchObject([
        { name: "echo", inputSchema: { type: "object" } },
      ]);
      expect(JSON.parse(search.content[0].text)).toEqual(search.structuredContent);
      const direct = await callTool("echo", { text: "hi" });
      const result = await callTool("tool_call", { name: "echo", arguments: { text: "hi" } });
      expect(result.isError ?? false).toBe(false);
      expect(result.content).toEqual(direct.content);
      const id = result._meta["backplane/invocation_id"];
      expect((await api.call("GET", `/v1/invocations/${id}`)).json).toMatchObject({ export_id: "echo" });
      // The list is unchanged, so the client's prompt does not change.
      expect(await listNames()).toEqual(["ask", "tool_call", "tool_search"]);
    },
  );

  test("reports invalid arguments of the two tools to the model", async () => {
    for (const [name, input] of [
      ["tool_search", {}],
      ["tool_search", { query: "x", limit: 21 }],
      ["tool_call", { arguments: {} }],
      ["tool_call", { name: "echo", arguments: 7 }],
    ] as const)
      expect(await callTool(name, input), JSON.stringify(input)).toMatchObject({ isError: true });
    expect((await callTool("tool_search", { query: "zebra" })).structuredContent).toEqual({ tools: [] });
    const { last } = await client.ask("tools/call", { name: "tool_call", arguments: { name: "absent" } });
    expect(last.error).toMatchObject({ code: -32602, message: "Unknown tool: absent" });
  });
});

verifies("client.profiles", "shows in the catalog what is deferred and why", async () => {
  const { items } = (await api.call("GET", "/v1/catalog")).json as { items: JsonObject[] };
  const findTool = (name: string) => items.find((item) => item.name === name);
  expect(findTool("echo")).toMatchObject({ deferred: true, deferred_by: "budget" });
  expect(findTool("ask")).toMatchObject({ deferred: false, deferred_by: null });
});

test("returns the same array if no tool is deferred, and keeps another tool named tool_call", () => {
  const plain = [createCatalogTool("a"), createCatalogTool("b")];
  expect(withoutDeferred(plain)).toBe(plain);
  const other_tool = { ...createCatalogTool("tool_call"), description: "Somebody else's." };
  const listed = withoutDeferred([{ ...createCatalogTool("a"), deferred: true }, other_tool]);
  expect(listed.map(({ name }) => name)).toEqual(["tool_call", "tool_search"]);
  expect(listed[0]).toBe(other_tool);
});
