import { expect, test } from "vitest";
import type { MarketplaceEntry, Package } from "../../src/schema/index.ts";
import { comparePackages, compareWithEntry } from "../../src/views/compare-packages.ts";

const NONE = { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] };

function createPackage(exports: object[], schemas: object = {}, protocol = "vai.rpc.v1"): Package {
  return { manifest: { runtime: { protocol }, exports }, schemas } as unknown as Package;
}

/** Marks the changes that the console shows as warnings. */
const describeChanges = (before: Package, after: Package): string[] =>
  comparePackages(before, after).map(({ text, riskier }) => (riskier ? `Riskier: ${text}` : text));

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
      { id: "new", permissions: { ...NONE, gateway_api_scopes: ["tools:invoke"] } },
    ],
    { "c.json": { properties: { team: {}, region: {} }, required: ["team", "region"] } },
  );
  expect(describeChanges(before, after)).toEqual([
    "It adds new.",
    "It no longer has old.",
    "Riskier: search will be able to use the network: b.test.",
    "Riskier: search will need the secret token.",
    "search has the new setting region.",
    "search no longer has the setting gone.",
    "search requires the setting region.",
    "Riskier: new will be able to call the gateway with tools:invoke.",
  ]);
  expect(describeChanges(before, before)).toEqual([]);
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
  expect(describeChanges(before, after)).toEqual([
    "Riskier: search will have the file access scratch instead of none.",
    "Riskier: search will be able to call the gateway with tools:invoke.",
    "Riskier: search has the effect class unknown instead of read_only.",
    "Riskier: search will no longer need approval for every call.",
    "The description of search changes.",
    "The arguments of search change.",
    "The result of search changes.",
  ]);
});

test("does not call a change riskier when the version can do less", () => {
  const tool = { effect_class: "idempotent_write", requires_approval: false, input_schema: "i.json" };
  const wide = { network: "egress", filesystem: "scratch", gateway_api_scopes: ["a"], secret_slots: ["b"] };
  const before = createPackage([{ id: "search", kind: "tool", permissions: wide, tool }]);
  const after = createPackage([
    {
      id: "search",
      kind: "tool",
      permissions: { ...NONE, filesystem: "assets_ro" },
      tool: { ...tool, effect_class: "read_only", requires_approval: true },
    },
  ]);
  expect(describeChanges(before, after)).toEqual([
    "search will no longer use the network.",
    "search will have the file access assets_ro instead of scratch.",
    "search will no longer call the gateway with a.",
    "search will no longer get the secret b.",
    "search has the effect class read_only instead of idempotent_write.",
    "search will need approval for every call.",
  ]);
});

test("explains that the tools of a server are known only when it runs", () => {
  const server = createPackage([], {}, "mcp.stdio");
  expect(describeChanges(server, server)).toEqual([
    expect.stringContaining("a tool that changes later is hidden until you accept it"),
  ]);
});

test("warns when a version is no longer signed or comes from another source", () => {
  const verified = { state: "verified", key_id: "ed25519:1", key_name: "Acme" };
  const oci = { reference: "oci://registry.test/acme/dev:1" };
  const signed = {
    ...createPackage([]),
    version: "1.0.0",
    signature: verified,
    origin: "oci",
    oci,
  } as Package;
  const upload = { ...createPackage([]), origin: "upload", installed_by: "key_1" } as Package;
  expect(describeChanges(signed, upload)).toEqual([
    "Riskier: It has no valid signature of a trusted key; 1.0.0 was signed with Acme.",
    "Riskier: It comes from local files from key_1 instead of oci:registry.test/acme/dev.",
  ]);
  const by_other = {
    ...signed,
    signature: { ...verified, key_id: "ed25519:2", key_name: "Next" },
  } as Package;
  expect(describeChanges(signed, by_other)).toEqual(["It is signed with Next instead of Acme."]);
  expect(describeChanges(signed, signed)).toEqual([]);
});

test("warns when a version no longer limits its domains", () => {
  const network = { ...NONE, network: "egress" };
  const before = createPackage([{ id: "search", permissions: { ...network, allowed_domains: ["a.test"] } }]);
  const after = createPackage([{ id: "search", permissions: network }]);
  expect(describeChanges(before, after)).toEqual([
    "Riskier: search will be able to reach every domain that the gateway allows.",
  ]);
});

test("says which domains a tool will reach after an upgrade limits them", () => {
  const open = createPackage([{ id: "search", permissions: { ...NONE, network: "egress" } }]);
  const limited = createPackage([
    { id: "search", permissions: { ...NONE, network: "egress", allowed_domains: ["a.test", "b.test"] } },
  ]);
  expect(describeChanges(open, limited)).toEqual(["search will only reach a.test, b.test."]);
});

/** A card with these permissions for the export `search`. */
function createCard(permissions: object, fields: object = {}): MarketplaceEntry {
  const entry = {
    package: { exports: [{ id: "search", kind: "tool" }] },
    permissions: { ...NONE, ...permissions },
    oci: `oci://r.test/acme/search@sha256:${"0".repeat(64)}`,
    signature: { key_id: "ed25519:1", public_key: "PEM" },
    ...fields,
  };
  return entry as unknown as MarketplaceEntry;
}

const compareCard = (before: Package, entry: MarketplaceEntry): string[] =>
  compareWithEntry(before, entry).map(({ text, riskier }) => (riskier ? `Riskier: ${text}` : text));

/** The package in use, from the repository of the card and signed with its key. */
const inUse = (exports: object[]): Package => ({
  ...createPackage(exports),
  signature: { state: "verified", key_id: "ed25519:1", key_name: "Acme", signed_at: null, reason: null },
  oci: { reference: "oci://r.test/acme/search:0.1.0", manifest_digest: "sha256:1" },
});

test("compares a card with all permissions of the package in use", () => {
  const before = inUse([
    { id: "search", permissions: { ...NONE, network: "egress", allowed_domains: ["a.test"] } },
    { id: "old", permissions: { ...NONE, filesystem: "scratch", secret_slots: ["token"] } },
  ]);
  const wider = { network: "egress", allowed_domains: ["a.test", "b.test"], secret_slots: ["token", "key"] };
  expect(compareCard(before, createCard(wider))).toEqual([
    "It no longer has old.",
    "Riskier: It will be able to reach b.test.",
    "It will have the file access none instead of scratch.",
    "Riskier: It will need the secret key.",
  ]);
  const same = { network: "egress", allowed_domains: ["a.test"] };
  expect(compareCard(inUse([before.manifest.exports[0]!]), createCard(same))).toEqual([]);
});

test("reports a card whose artifact has another key or repository", () => {
  const before = inUse([{ id: "search", permissions: NONE }]);
  const moved = createCard({}, { oci: `oci://other.test/acme/search@sha256:${"0".repeat(64)}` });
  expect(compareCard(before, moved)).toEqual([
    "Riskier: It comes from oci:other.test/acme/search instead of oci:r.test/acme/search.",
  ]);
  const other_key = createCard({}, { signature: { key_id: "ed25519:2", public_key: "PEM" } });
  expect(compareCard(before, other_key)).toEqual(["It is signed with ed25519:2 instead of Acme."]);
});
