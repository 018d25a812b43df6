import type { Catalog, CatalogTool, ServerInfo } from "@backplane/ports";
import { expect, test } from "vitest";
import { createViewTools } from "../../../src/mcp/lists/view-tools.ts";

const tool = (package_id: string): CatalogTool =>
  ({ name: "mcp_files_read", package_id, binding_id: null, description: `of ${package_id}` }) as CatalogTool;
const server = (package_id: string, binding_id: string): ServerInfo => ({
  name: binding_id,
  binding_id,
  package_id,
  capabilities: {},
  instructions: null,
  tools: [{ name: "read", export_id: "mcp_files_read" }],
});

test("omits a tool of a server when another package has its name", async () => {
  const all = [tool("first/files")];
  const view_tools = createViewTools({ list: async () => all } as unknown as Catalog);
  const caller = {} as never;
  const first_view = { server: server("first/files", "b1") };
  expect(await view_tools.list(caller, first_view)).toMatchObject([
    { name: "read", tool: { binding_id: "b1" } },
  ]);
  const second_view = { server: server("second/files", "b2") };
  expect(await view_tools.list(caller, second_view)).toEqual([]);
  expect(await view_tools.find(caller, second_view, "read")).toBeNull();
});

test("uses the catalog name for a tool whose own name has hidden characters", async () => {
  const all = [tool("first/files")];
  const view_tools = createViewTools({ list: async () => all } as unknown as Catalog);
  const server_info = server("first/files", "b1");
  const view = {
    server: { ...server_info, tools: [{ name: "re\u{e0069}ad", export_id: "mcp_files_read" }] },
  };
  expect(await view_tools.list({} as never, view)).toMatchObject([{ name: "mcp_files_read" }]);
  expect(await view_tools.find({} as never, view, "mcp_files_read")).toMatchObject({ binding_id: "b1" });
});

test("caches the tools of a server for each catalog", async () => {
  const all = [tool("first/files")];
  const view_tools = createViewTools({ list: async () => all } as unknown as Catalog);
  const server_info = server("first/files", "b1");
  const first = await view_tools.list({} as never, { server: server_info });
  // The kernel creates such a server object for each request of a caller whose policy removes capabilities.
  expect(await view_tools.list({} as never, { server: { ...server_info, capabilities: {} } })).toBe(first);
});
