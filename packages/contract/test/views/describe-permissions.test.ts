import { expect, test } from "vitest";
import type { Permissions } from "../../src/schema/index.ts";
import { describePermissions, permissionDetails } from "../../src/views/describe-permissions.ts";

const none: Permissions = { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] };

test("says what a package without permissions cannot do", () => {
  expect(describePermissions(none)).toEqual([
    "It cannot use the network.",
    "It cannot read or write files.",
    "It receives no secrets.",
  ]);
  expect(permissionDetails(none).some(({ granted }) => granted)).toBe(false);
});

test("treats network access to no domain as no network access", () => {
  expect(permissionDetails({ ...none, network: "egress", allowed_domains: [] })[0]).toMatchObject({
    sentence: "It cannot use the network.",
    granted: false,
  });
});

test("lists the author's reasons with the permission that they explain", () => {
  const described = permissionDetails({
    network: "egress",
    allowed_domains: ["api.test"],
    filesystem: "scratch",
    secret_slots: ["token", "other"],
    gateway_api_scopes: ["tools:invoke"],
    reasons: { "api.test": "asks the service", token: "signs in", secret_slots: "signs in", unknown: "lost" },
  });
  expect(described.map(({ permission, granted, reasons }) => [permission, granted, reasons])).toEqual([
    ["network", true, ["asks the service"]],
    ["filesystem", true, []],
    ["secret_slots", true, ["signs in"]],
    ["gateway_api_scopes", true, []],
  ]);
});
