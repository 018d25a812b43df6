import type { Grant } from "@backplane/contract";
import { grantWith } from "@backplane/test-kit/grant-with";
import { expect, test } from "vitest";
import { combineGrants, listWiderParts } from "../../src/grant/wider-parts.ts";

const mount = (source: string, writable = false) => ({ source, target: "/data", writable });

test.each<[string, Partial<Grant>, Partial<Grant>, string[]]>([
  [
    "the same grant",
    { network: "egress", allowed_domains: ["a.dev"] },
    { network: "egress", allowed_domains: ["a.dev"] },
    [],
  ],
  ["less isolation", { class: "isolated" }, { class: "worker" }, ["class"]],
  ["more isolation", { class: "worker" }, { class: "isolated" }, []],
  ["network", {}, { network: "egress", allowed_domains: ["a.dev"] }, ["allowed_domains", "network"]],
  ["no network", { network: "egress", allowed_domains: ["a.dev"] }, {}, []],
  [
    "a further domain",
    { network: "egress", allowed_domains: ["a.dev"] },
    { network: "egress", allowed_domains: ["b.dev", "a.dev"] },
    ["allowed_domains"],
  ],
  [
    "a domain below a wildcard",
    { network: "egress", allowed_domains: ["*.a.dev"] },
    { network: "egress", allowed_domains: ["x.a.dev"] },
    [],
  ],
  [
    "another port",
    { network: "egress", allowed_domains: ["a.dev:443"] },
    { network: "egress", allowed_domains: ["a.dev"] },
    ["allowed_domains"],
  ],
  [
    "domains in another order",
    { network: "egress", allowed_domains: ["a.dev", "b.dev"] },
    { network: "egress", allowed_domains: ["b.dev", "a.dev"] },
    [],
  ],
  ["scratch", { filesystem: "assets_ro" }, { filesystem: "scratch" }, ["filesystem"]],
  ["less than scratch", { filesystem: "scratch" }, { filesystem: "assets_ro" }, []],
  ["another folder", { mounts: [mount("/a")] }, { mounts: [mount("/b")] }, ["mounts"]],
  ["a folder that became writable", { mounts: [mount("/a")] }, { mounts: [mount("/a", true)] }, ["mounts"]],
  ["a folder that became read-only", { mounts: [mount("/a", true)] }, { mounts: [mount("/a")] }, []],
  ["a secret slot", { secret_slots: ["a"] }, { secret_slots: ["a", "b"] }, ["secret_slots"]],
  [
    "a secret in the environment",
    { secret_slots: ["a"] },
    { secret_slots: ["a"], secret_env: { a: "A" } },
    ["secret_env"],
  ],
  ["a scope", {}, { gateway_api_scopes: ["tools:invoke"] }, ["gateway_api_scopes"]],
  ["a capability", {}, { capabilities: ["shell"] }, ["capabilities"]],
  ["all tools", { tools: ["a"] }, { tools: null }, ["tools"]],
  ["one more tool", { tools: ["a"] }, { tools: ["a", "b"] }, ["tools"]],
  ["one tool of all", { tools: null }, { tools: ["a"] }, []],
  ["the host", {}, { host: true }, ["host"]],
])("finds the wider parts: %s", (_name, before, after, wider) => {
  expect(listWiderParts(grantWith(before), grantWith(after))).toEqual(wider);
});

test("combines grants into one that covers each of them", () => {
  const grants = [
    grantWith({ class: "worker", network: "egress", allowed_domains: ["a.dev"], secret_slots: ["a"] }),
    grantWith({ filesystem: "scratch", mounts: [mount("/a", true)], host: true, secret_env: { a: "A" } }),
    grantWith({ tools: ["a"], capabilities: ["shell"], gateway_api_scopes: ["tools:invoke"] }),
  ];
  const combined = combineGrants(grants)!;
  for (const grant of grants) expect(listWiderParts(combined, grant)).toEqual([]);
  expect(combineGrants([])).toBeNull();
});
