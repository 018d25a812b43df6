import type { Package } from "@backplane/contract";
import { expect, test } from "vitest";
import { comparePackages } from "../../../src/commands/plugin/compare-packages.ts";

const NONE = { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] };

function packageOf(exports: object[], schemas: object = {}, protocol = "vai.rpc.v1"): Package {
  return { manifest: { runtime: { protocol }, exports }, schemas } as unknown as Package;
}

test("lists exports, permissions, slots and configuration that an upgrade changes", () => {
  const before = packageOf(
    [
      { id: "search", permissions: { ...NONE, allowed_domains: ["a.test"] }, config_schema: "c.json" },
      { id: "old", permissions: NONE },
    ],
    { "c.json": { properties: { team: {}, gone: {} }, required: ["team"] } },
  );
  const wider = { ...NONE, network: "egress", allowed_domains: ["b.test"], secret_slots: ["token"] };
  const after = packageOf(
    [
      { id: "search", permissions: wider, config_schema: "c.json" },
      { id: "new", permissions: NONE },
    ],
    { "c.json": { properties: { team: {}, region: {} }, required: ["team", "region"] } },
  );
  expect(comparePackages(before, after)).toEqual([
    "exports: +new -old",
    "search: network: none → egress",
    "search: allowed_domains: +b.test -a.test",
    "search: secret_slots: +token",
    "search: config: +region -gone",
    "search: config now requires region",
  ]);
  expect(comparePackages(before, before)).toEqual([]);
});

test("says that the tools of a server are known only when it runs", () => {
  const server = packageOf([], {}, "mcp.stdio");
  expect(comparePackages(server, server)).toEqual([expect.stringContaining("waits until you accept it")]);
});
