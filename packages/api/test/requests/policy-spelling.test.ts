import { expect, test } from "vitest";
import { canonicalPolicy } from "../../src/requests/policy-spelling.ts";

test.for<[object, object]>([
  [{ allowedToolCategories: ["coding"] }, { allowed_tool_categories: ["coding"] }],
  [{ "allowed-tool-categories": null }, { allowed_tool_categories: null }],
  [
    { allowed_origins: ["core"], toolTokenBudget: 5 },
    { allowed_origins: ["core"], tool_token_budget: 5 },
  ],
  [{ "user-allowed-origins": ["base"] }, { roles: { user: { allow: { origins: ["base"] } } } }],
  [
    { "guest-allowed-origins": ["base"], roles: { guest: { max_risk: "low" }, user: { disabled: true } } },
    { roles: { guest: { max_risk: "low", allow: { origins: ["base"] } }, user: { disabled: true } } },
  ],
  [
    { roles: { user: {} }, userAllowedOrigins: ["base"], guestAllowedOrigins: ["core"] },
    { roles: { user: { allow: { origins: ["base"] } }, guest: { allow: { origins: ["core"] } } } },
  ],
  [
    { channels: { web: { allowedToolCategories: ["coding"], "allowed-origins": ["core"], else: 1 } } },
    { channels: { web: { allowed_tool_categories: ["coding"], allowed_origins: ["core"], else: 1 } } },
  ],
  [{ channels: null }, { channels: null }],
  [{ somethingElse: 1 }, { somethingElse: 1 }],
])("translates %j to the canonical spelling", ([input, expected]) => {
  expect(canonicalPolicy(input)).toEqual(expected);
});

test("refuses a field that is set in two spellings", () => {
  const both = { allowedToolCategories: ["a"], allowed_tool_categories: ["b"] };
  expect(() => canonicalPolicy(both)).toThrow("allowed_tool_categories is set too");
  const channels = { web: { allowedToolCategories: ["a"], allowed_tool_categories: ["b"] } };
  expect(() => canonicalPolicy({ channels })).toThrow("channels.web.allowed_tool_categories is set too");
  const origins = { "user-allowed-origins": ["base"], roles: { user: { allow: { origins: ["core"] } } } };
  expect(() => canonicalPolicy(origins)).toThrow("roles.user.allow.origins is set too");
});
