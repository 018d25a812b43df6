import type { Policy } from "@backplane/contract";
import { expect, test } from "vitest";
import { compilePolicy } from "../../src/policy/effective-policy.ts";

const both = (org: Policy, project: Policy) => compilePolicy(org, project).document;

test("lets a project narrow its org's policy and never widen it", () => {
  const org: Policy = {
    tolerance: { conversation: "medium", background: "none" },
    allowed_origins: ["core", "plugin"],
    allowed_tool_categories: ["coding"],
    roles: { user: { allow: { tools: ["a", "b"] }, deny: { origins: ["mcp"] }, max_risk: "medium" } },
    floor: { egress: "medium", host: "critical" },
    host: { network: "egress", allowed_domains: ["a.example", "b.example"] },
  };
  const wider: Policy = {
    tolerance: { conversation: "full", background: "full", headless: "full" },
    allowed_origins: ["core", "plugin", "mcp"],
    allowed_tool_categories: ["coding", "shell"],
    roles: { user: { allow: { tools: ["a", "b", "c"] }, max_risk: "critical" } },
    floor: { egress: "low", host: "low", categories: { shell: "low" } },
    host: { network: "egress", allowed_domains: ["a.example", "b.example", "c.example"] },
  };
  const plain = both(org, {});
  const kept = both(org, wider);
  expect({ ...kept, roles: null }).toEqual({ ...plain, roles: null });
  expect(kept.roles.user).toEqual({
    allow: { tools: ["a", "b"] },
    deny: { origins: ["mcp"] },
    max_risk: "medium",
  });
  const narrow = both(org, {
    tolerance: { conversation: "none" },
    allowed_origins: ["core"],
    roles: { user: { deny: { tools: ["x"] }, max_risk: "low" } },
    floor: { egress: "high" },
    host: { network: "none" },
    deferred_tools: ["a*"],
  });
  expect(narrow).toMatchObject({
    tolerance: { conversation: "none" },
    allowed_origins: ["core"],
    roles: { user: { deny: { origins: ["mcp"], tools: ["x"] }, max_risk: "low" } },
    floor: { egress: "high", host: "critical" },
    host: { network: "none" },
    deferred_tools: ["a*"],
  });
});
