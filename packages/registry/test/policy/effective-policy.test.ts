import type { Policy } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { compilePolicy } from "../../src/policy/effective-policy.ts";

const mergeDocuments = (org: Policy, project: Policy) => compilePolicy(org, project).document;

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
  const plain = mergeDocuments(org, {});
  const effective = mergeDocuments(org, wider);
  expect({ ...effective, roles: null }).toEqual({ ...plain, roles: null });
  expect(effective.roles.user).toEqual({
    allow: { tools: ["a", "b"] },
    deny: { origins: ["mcp"] },
    max_risk: "medium",
  });
  const narrow = mergeDocuments(org, {
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

test("applies the lists of a project whose org has none", () => {
  const project: Policy = { allowed_origins: ["core"], allowed_tool_categories: ["coding"] };
  expect(mergeDocuments({}, project)).toMatchObject(project);
  expect(mergeDocuments(project, {})).toMatchObject(project);
  expect(mergeDocuments({}, {})).toMatchObject({ allowed_origins: null, allowed_tool_categories: null });
});

test("keeps what either level denies or disables", () => {
  const roles = (user: NonNullable<Policy["roles"]>["user"]): Policy => ({ roles: { user: user! } });
  const denied = mergeDocuments(roles({ deny: { tools: ["a"] } }), roles({ deny: { tools: ["b"] } }));
  expect(denied.roles.user?.deny).toEqual({ tools: ["a", "b"] });
  const off = roles({ disabled: true });
  const on = roles({ disabled: false });
  for (const [org, project] of [
    [off, on],
    [on, off],
  ] as const) {
    expect(compilePolicy(org, project).disabled_roles).toEqual(new Set(["user"]));
  }
  expect(compilePolicy(on, on).disabled_roles).toEqual(new Set());
});

test("compares the categories of roles and floors without regard to case", () => {
  const roles = (categories: string[]): Policy => ({ roles: { user: { allow: { categories } } } });
  expect(mergeDocuments(roles(["Coding", "notes"]), roles(["coding", "Shell"])).roles.user?.allow).toEqual({
    categories: ["Coding"],
  });
  const denied = (categories: string[]): Policy => ({ roles: { user: { deny: { categories } } } });
  expect(mergeDocuments(denied(["Coding"]), denied(["coding", "Shell"])).roles.user?.deny).toEqual({
    categories: ["Coding", "Shell"],
  });
  const { floor } = mergeDocuments({ floor: { categories: { Shell: "critical", shell: "low" } } }, {});
  expect(floor.categories).toEqual({ shell: "critical" });
});

test("shows the tools that the patterns of an org and a project have in common", () => {
  const roles = (tools: string[]): Policy => ({ roles: { user: { allow: { tools } } } });
  const tools = (org: string[], project: string[]) =>
    mergeDocuments(roles(org), roles(project)).roles.user?.allow?.tools;
  expect(tools(["search_*", "note"], ["search_web", "n*"])).toEqual(["note", "search_web"]);
  expect(tools(["*"], ["search_*"])).toEqual(["search_*"]);
  expect(tools(["search_*"], ["search_*", "x"])).toEqual(["search_*"]);
  expect(tools(["search_web"], ["note"])).toEqual([]);
});

test("archives every project of an archived org", () => {
  const archived = (org: Policy, project: Policy) => compilePolicy(org, project).archived;
  expect(archived({ archived: true }, {})).toBe("org");
  expect(archived({ archived: true }, { archived: true })).toBe("org");
  expect(archived({}, { archived: true })).toBe("project");
  expect(archived({}, {})).toBeNull();
});

test("lets a project replace a tool profile of its org and keep the others", () => {
  const { tool_profiles, pinned_tools, tool_token_budget } = mergeDocuments(
    { tool_profiles: { review: ["a"], write: ["b"] }, pinned_tools: ["a"], tool_token_budget: 100 },
    { tool_profiles: { review: ["c"] }, pinned_tools: ["b"], tool_token_budget: 200 },
  );
  expect(tool_profiles).toEqual({ review: ["c"], write: ["b"] });
  expect(pinned_tools).toEqual(["a", "b"]);
  expect(tool_token_budget).toBe(200);
});

verifies(
  "instr.origins",
  "accepts the origin names of a policy for Hefty, alone or together with Backplane's own names",
  () => {
    const { document, origins, roles } = compilePolicy(
      { allowed_origins: ["base", "plugin"], roles: { user: { allow: { origins: ["base", "built_in"] } } } },
      { allowed_origins: ["core", "mcp"], roles: { user: { allow: { origins: ["bundled"] } } } },
    );
    expect(document.allowed_origins).toEqual(["core"]);
    expect(document.roles.user?.allow?.origins).toEqual(["bundled"]);
    expect(origins).toEqual(new Set(["core"]));
    expect(roles.get("user")!.map(({ allow }) => allow?.origins)).toEqual([
      new Set(["core", "bundled"]),
      new Set(["bundled"]),
    ]);
  },
);

test("merges the channels of an org and a project to what both allow", () => {
  const org: Policy = {
    channels: {
      web: {
        allowed_tool_categories: ["Coding", "notes"],
        tolerance: { conversation: "low" },
        max_risk: "medium",
      },
      mcp: { allowed_origins: ["base"] },
    },
  };
  const project: Policy = {
    channels: {
      web: {
        allowed_tool_categories: ["coding", "shell"],
        tolerance: { conversation: "full", headless: "none" },
        deny: { tools: ["x"] },
      },
      desk: { max_risk: "low" },
    },
  };
  expect(mergeDocuments(org, project).channels).toEqual({
    web: {
      allow: {},
      deny: { tools: ["x"] },
      max_risk: "medium",
      tolerance: { conversation: "low", headless: "none" },
      allowed_tool_categories: ["Coding"],
      allowed_origins: null,
    },
    mcp: { allowed_origins: ["core"] },
    desk: { max_risk: "low" },
  });
});
