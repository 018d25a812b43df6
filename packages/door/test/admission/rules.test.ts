import { type Binding, type Grant, type Package, type Policy, RISK_CONTEXTS } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import type { ExportPlan, RuleHit } from "@backplane/registry";
import { grantWith } from "@backplane/test-kit/grant-with";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { guest, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { compilePolicy } from "../../../registry/src/policy/effective-policy.ts";
import { admit, recheck } from "../../src/admission/admit.ts";
import { type AdmissionState, RULES } from "../../src/admission/rules.ts";
import { findListingDenial } from "../../src/admission/visibility.ts";
import type { Opened } from "../../src/open/open.ts";

interface Case {
  item?: ReturnType<typeof toolExport>;
  binding?: Partial<Binding>;
  grant?: Partial<Grant>;
  org?: Policy;
  project?: Policy;
  caller?: Caller;
  call?: Partial<Pick<Opened, "context" | "depth" | "hits" | "row">>;
  state?: Partial<AdmissionState>;
}

function buildPlan({ item = toolExport("t"), binding = {}, grant = {} }: Case): ExportPlan {
  const content = manifest([item]);
  const exported = content.exports[0]!;
  const granted = grantWith(grant);
  const bound = {
    binding: {
      binding_id: "bind_1",
      package_id: content.package_id,
      export_id: item.id,
      status: "active",
      rollout: { traffic_percent: 100 },
      policy: {},
      ...binding,
    } as Binding,
    package: { origin: "folder", manifest: content } as Package,
  };
  return {
    bound,
    export: exported,
    effect_class: exported.kind === "tool" ? exported.tool.effect_class : "idempotent_write",
    class: granted.class,
    level: granted,
    grant: granted,
    pool_key: "pool",
    concurrency_key: "bind_1/t",
  } as unknown as ExportPlan;
}

function createOpenedCall(test_case: Case): Opened {
  return {
    caller: test_case.caller ?? user,
    plan: buildPlan(test_case),
    policy: compilePolicy(test_case.org ?? {}, test_case.project ?? {}),
    context: "direct",
    issues: [],
    hits: [],
    depth: 1,
    row: null,
    root: { actor: "key_user", role: "user", revoked: null },
    scope,
    ...test_case.call,
  } as unknown as Opened;
}

const STATE: AdmissionState = {
  stopping: false,
  sandbox: () => ({ enabled: true, available: true, reason: "" }),
  isQueueFull: () => false,
  areApprovalsFull: () => false,
  max_depth: 4,
};

/** Returns the rule that refuses or asks, or "run". */
function decide(test_case: Case): string {
  const verdict = admit(createOpenedCall(test_case), { ...STATE, ...test_case.state });
  if (verdict.verdict === "refused") return `${verdict.rule}: ${verdict.code}`;
  return verdict.ask === null ? "run" : `ask: ${verdict.ask.rule}`;
}

const ruleHit = (action: RuleHit["action"]): RuleHit => ({
  name: "r",
  action,
  risk: "critical",
  reason: "why",
});

test("applies the admission rules in this order", () => {
  expect(RULES.map(({ name }) => name)).toEqual([
    "stopping",
    "authority",
    "input",
    "delegation",
    "depth",
    "role",
    "channel",
    "origin",
    "category",
    "security",
    "binding",
    "loads",
    "target",
    "class",
    "queue",
    "approval",
    "risk",
  ]);
});

test("reports the first rule that asks, and refuses if a later rule denies", () => {
  const asks = toolExport("t", {}, { requires_approval: true, effect_class: "unknown" });
  const call = { context: "conversation" } as const;
  expect(decide({ item: asks, call })).toBe("ask: approval");
  // The approval rule asks, and when the risk rule is evaluated, the limit of pending approvals is reached.
  let requests = 0;
  const areApprovalsFull = () => requests++ > 0;
  expect(decide({ item: asks, call, state: { areApprovalsFull } })).toBe("risk: request.overloaded");
});

test.for([
  ["read_only", "run"],
  ["idempotent_write", "role: policy.denied"],
  ["non_idempotent_write", "role: policy.denied"],
  ["unknown", "role: policy.denied"],
] as const)("decides whether a guest may use a tool that is %s: %s", ([effect_class, verdict]) => {
  expect(decide({ item: toolExport("t", {}, { effect_class }), caller: guest })).toBe(verdict);
});

describe("a role", () => {
  const writes = toolExport("t", {}, { effect_class: "idempotent_write" });

  test("is limited by the org and by the project", () => {
    const low: Policy = { roles: { user: { max_risk: "low" } } };
    const others: Policy = { roles: { user: { allow: { tools: ["t"] } } } };
    expect(decide({ item: writes, org: others, project: others })).toBe("run");
    expect(decide({ item: writes, org: low, project: others })).toBe("role: policy.denied");
    expect(decide({ item: writes, org: others, project: low })).toBe("role: policy.denied");
  });

  test("may use a tool only if the tool matches every part of its allowance", () => {
    const allow = (tools: string[]): Policy => ({
      roles: { user: { allow: { origins: ["plugin"], tools } } },
    });
    expect(decide({ org: allow(["t"]) })).toBe("run");
    expect(decide({ org: allow(["other"]) })).toBe("role: policy.denied");
  });
});

describe("a channel", () => {
  const coding = toolExport("t", {}, { category: "Coding" });
  const web: Caller = { ...user, channel: "web" };
  const onWeb = (limits: NonNullable<Policy["channels"]>[string]): Policy => ({ channels: { web: limits } });
  const only_coding = onWeb({ allowed_tool_categories: ["coding"] });

  test("admits every tool of its categories and blocks all others", () => {
    expect(decide({ item: coding, caller: web, org: only_coding })).toBe("run");
    expect(decide({ caller: web, org: only_coding })).toBe("channel: policy.denied");
    const shell = toolExport("t", {}, { category: "shell" });
    expect(decide({ item: shell, caller: web, org: only_coding })).toBe("channel: policy.denied");
  });

  test("does not limit other channels or the gateway's own calls", () => {
    expect(decide({ caller: { ...user, channel: "mcp" }, org: only_coding })).toBe("run");
    expect(decide({ caller: user, org: only_coding })).toBe("run");
    expect(decide({ caller: { ...user, channel: "constructor" }, org: only_coding })).toBe("run");
  });

  test.for<[string, Policy]>([
    ["origins", onWeb({ allowed_origins: ["core"] })],
    ["allow", onWeb({ allow: { tools: ["other"] } })],
    ["deny", onWeb({ deny: { categories: ["coding"] } })],
    ["max_risk", onWeb({ max_risk: "low" })],
    ["every list", onWeb({ allowed_tool_categories: ["coding"], allow: { categories: ["notes"] } })],
  ])("limits tools by %s", ([, org]) => {
    const item = toolExport("t", {}, { category: "coding", effect_class: "idempotent_write" });
    expect(decide({ item, caller: web })).toBe("run");
    expect(decide({ item, caller: web, org })).toBe("channel: policy.denied");
  });

  test("cannot allow more than the other parts of the policy", () => {
    const wide = { allowed_tool_categories: ["shell"], allowed_origins: ["plugin" as const] };
    const shell = toolExport("t", {}, { category: "shell" });
    const org: Policy = { ...onWeb(wide), allowed_tool_categories: ["coding"] };
    expect(decide({ item: shell, caller: web, org })).toBe("category: policy.denied");
    const narrow: Policy = onWeb({ allowed_tool_categories: ["coding"] });
    expect(decide({ item: shell, caller: web, org: narrow, project: onWeb(wide) })).toBe(
      "channel: policy.denied",
    );
    expect(decide({ item: shell, caller: web, org: onWeb(wide), project: narrow })).toBe(
      "channel: policy.denied",
    );
  });

  test("lowers the tolerance of its calls and never raises it", () => {
    const call = { context: "conversation" } as const;
    expect(decide({ caller: web, call })).toBe("run");
    const none = onWeb({ tolerance: { conversation: "none" } });
    expect(decide({ caller: web, call, org: none })).toBe("ask: risk");
    expect(decide({ caller: { ...user, channel: "ws" }, call, org: none })).toBe("run");
    const item = toolExport("t", {}, { effect_class: "idempotent_write" });
    const full = onWeb({ tolerance: { conversation: "full" } });
    expect(decide({ item, caller: web, call, org: full })).toBe("ask: risk");
  });

  test("hides the tools that it denies from listings, and explains how to change that", () => {
    const { policy, plan } = createOpenedCall({ org: only_coding });
    expect(findListingDenial(user, plan, policy)).toBeNull();
    const denial = findListingDenial(web, plan, policy)!;
    expect(denial.reason).toBe(
      "The channel web does not allow t: the tool has no category, and only some categories are allowed.",
    );
    expect(denial.fix).toContain("backplane policy explain t --channel web");
  });
});

test("allows no origin if the list of allowed origins is empty", () => {
  expect(decide({ org: { allowed_origins: ["plugin"] } })).toBe("run");
  expect(decide({ org: { allowed_origins: ["mcp"] } })).toBe("origin: policy.denied");
  expect(decide({ org: { allowed_origins: [] } })).toBe("origin: policy.denied");
});

test("denies a call even if another security rule has raised its risk before", () => {
  expect(decide({ call: { hits: [ruleHit("raise"), ruleHit("deny")] } })).toBe("security: policy.denied");
});

test("allows max_depth levels of calls", () => {
  expect(decide({ call: { depth: 4 } })).toBe("run");
  expect(decide({ call: { depth: 5 } })).toBe("depth: policy.denied");
});

test("refuses calls to a binding without traffic", () => {
  expect(decide({ binding: { rollout: { traffic_percent: 0 } } })).toBe("binding: binding.not_active");
});

describe("a call that may need approval", () => {
  const item = toolExport("t", {}, { effect_class: "idempotent_write" });
  const decisions = (test_case: Case) =>
    RISK_CONTEXTS.map((context) => [context, decide({ ...test_case, call: { ...test_case.call, context } })]);

  test("awaits approval in conversations and in the background, and is refused in headless runs", () => {
    expect(decisions({ item })).toEqual([
      ["conversation", "ask: risk"],
      ["background", "ask: risk"],
      ["headless", "risk: policy.denied"],
    ]);
    expect(decide({ item })).toBe("run");
  });

  test("needs approval only in contexts that do not tolerate its risk", () => {
    for (const tolerant of RISK_CONTEXTS) {
      const decided = decisions({ item, org: { tolerance: { [tolerant]: "medium" } } });
      expect(decided.filter(([, verdict]) => verdict === "run")).toEqual([[tolerant, "run"]]);
    }
  });

  test("is refused while too many calls await approval, unless it was already waiting", () => {
    const state = { areApprovalsFull: () => true };
    const call = { context: "conversation" } as const;
    expect(decide({ item, state, call })).toBe("risk: request.overloaded");
    expect(decide({ item, state, call: { ...call, row: {} as never } })).toBe("ask: risk");
  });

  test("is never an event delivery, but may be a direct call to a hook", () => {
    const binding = { policy: { approval: "always" as const } };
    const item = hookExport("h", ["invocation.settled"]);
    const background = { context: "background" } as const;
    const plugin = { ...user, delegation: { invocation_id: "inv_1", scopes: [] } } as unknown as Caller;
    expect(decide({ binding })).toBe("ask: approval");
    expect(decide({ binding, item })).toBe("ask: approval");
    expect(decide({ binding, item, caller: plugin, call: background })).not.toBe("run");
    expect(decide({ binding, item, call: background })).toBe("run");
  });
});

test.for([
  ["isolated", true, "class: sandbox.unavailable"],
  ["isolated", false, "class: sandbox.unavailable"],
  ["worker", true, "class: sandbox.unavailable"],
  ["worker", false, "run"],
] as const)(
  "decides on a call of class %s while no sandbox is available and sandbox.enabled = %s: %s",
  ([isolation, enabled, verdict]) => {
    const state = { sandbox: () => ({ enabled, available: false, reason: "none" }) };
    expect(decide({ grant: { class: isolation }, state })).toBe(verdict);
  },
);

test("refuses a call whose own queue is full", () => {
  const item = toolExport("t", { max_concurrency: 3 });
  const full = (key: string, max: number) => key === "bind_1/t" && max === 3;
  expect(decide({ item, state: { isQueueFull: full } })).toBe("queue: invocation.queue_full");
  expect(decide({ state: { isQueueFull: () => true } })).toBe("run");
});

test("lets a plugin call only the tools that it was granted", () => {
  const from = (scopes: string[], tools: string[] | null): Caller => ({
    ...user,
    delegation: { invocation_id: "inv_1", scopes: scopes as never, grant: grantWith({ tools }) },
  });
  expect(decide({ caller: from(["tools:invoke"], null) })).toBe("run");
  expect(decide({ caller: from(["tools:invoke"], ["t"]) })).toBe("run");
  expect(decide({ caller: from(["tools:invoke"], ["other"]) })).toBe("delegation: policy.denied");
  expect(decide({ caller: from(["tools:invoke"], []) })).toBe("delegation: policy.denied");
  expect(decide({ caller: from(["runs:read"], null) })).toBe("delegation: policy.denied");
});

test("rates the risk of a listed tool by the grant that the policy allows", () => {
  const plan = buildPlan({ grant: { network: "egress", allowed_domains: ["a.example"] } });
  const risky: Policy = { floor: { egress: "high" }, roles: { user: { max_risk: "low" } } };
  expect(findListingDenial(user, plan, compilePolicy(risky, {}))).not.toBeNull();
  const offline: Policy = { ...risky, host: { network: "none" } };
  expect(findListingDenial(user, plan, compilePolicy(offline, {}))).toBeNull();
});

test("rechecks the caller, tool and binding of a call that waited, but not its arguments", () => {
  const findRecheckDenial = (test_case: Case) =>
    recheck(createOpenedCall(test_case), grantWith(test_case.grant), STATE)?.rule ?? null;
  expect(findRecheckDenial({})).toBeNull();
  expect(findRecheckDenial({ org: { archived: true } })).toBe("authority");
  expect(findRecheckDenial({ org: { roles: { user: { deny: { tools: ["t"] } } } } })).toBe("role");
  expect(findRecheckDenial({ org: { allowed_origins: [] } })).toBe("origin");
  expect(findRecheckDenial({ binding: { status: "disabled" } })).toBe("binding");
  expect(findRecheckDenial({ call: { hits: [ruleHit("deny")] } })).toBeNull();
});
