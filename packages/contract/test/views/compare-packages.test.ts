import { expect, test } from "vitest";
import type { Package } from "../../src/schema/index.ts";
import { comparePackages } from "../../src/views/compare-packages.ts";

const NONE = { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] };

function createPackage(exports: object[], schemas: object = {}, protocol = "vai.rpc.v1"): Package {
  return { manifest: { runtime: { protocol }, exports }, schemas } as unknown as Package;
}

test("lists exports, permissions, slots and configuration that an upgrade changes", () => {
  const before = createPackage(
    [
      { id: "search", permissions: { ...NONE, allowed_domains: ["a.test"] }, config_schema: "c.json" },
      { id: "old", permissions: NONE },
    ],
    { "c.json": { properties: { team: {}, gone: {} }, required: ["team"] } },
  );
  const wider = { ...NONE, network: "egress", allowed_domains: ["b.test"], secret_slots: ["token"] };
  const after = createPackage(
    [
      { id: "search", permissions: wider, config_schema: "c.json" },
      { id: "new", permissions: NONE },
    ],
    { "c.json": { properties: { team: {}, region: {} }, required: ["team", "region"] } },
  );
  expect(comparePackages(before, after)).toEqual([
    "It adds new.",
    "It no longer has old.",
    "search will be able to use the network: b.test.",
    "search will need the secret token.",
    "search has the new setting region.",
    "search no longer has the setting gone.",
    "search requires the setting region.",
  ]);
  expect(comparePackages(before, before)).toEqual([]);
});

test("lists what changes for callers of a tool", () => {
  const tool = { effect_class: "read_only", requires_approval: true, input_schema: "i.json" };
  const search = { id: "search", kind: "tool", description: "Finds.", permissions: NONE, tool };
  const before = createPackage([search], { "i.json": { type: "object" } });
  const after = createPackage(
    [
      {
        ...search,
        description: "Finds more.",
        permissions: { ...NONE, filesystem: "scratch", gateway_api_scopes: ["tools:invoke"] },
        tool: { ...tool, effect_class: "unknown", requires_approval: false, output_schema: "o.json" },
      },
    ],
    { "i.json": { type: "object", required: ["text"] }, "o.json": {} },
  );
  expect(comparePackages(before, after)).toEqual([
    "search will have the file access scratch instead of none.",
    "search will be able to call the gateway with tools:invoke.",
    "search has the effect class unknown instead of read_only.",
    "search will no longer ask for approval of every call.",
    "The description of search changes.",
    "The arguments of search change.",
    "The result of search changes.",
  ]);
});

test("explains that the tools of a server are known only when it runs", () => {
  const server = createPackage([], {}, "mcp.stdio");
  expect(comparePackages(server, server)).toEqual([expect.stringContaining("is hidden until you accept it")]);
});
