/** The risk of a call from what authors, servers, operators and the host declare. */
import {
  type Grant,
  type Policy,
  RISK_OF_INSTRUMENT,
  type Risk,
  TOLERANCES,
  tolerates,
} from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { grantWith } from "@backplane/test-kit/grant-with";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { compilePolicy } from "../../src/policy/effective-policy.ts";
import { computeRisk } from "../../src/policy/risk.ts";

function computeToolRisk(
  part: Record<string, unknown>,
  grant: Partial<Grant> = {},
  org: Policy = {},
  project: Policy = {},
) {
  const item = manifest([toolExport("t", {}, part)]).exports[0]!;
  if (item.kind !== "tool") throw new Error("no tool");
  const plan = { export: item, effect_class: item.tool.effect_class };
  return computeRisk(plan, grantWith(grant), compilePolicy(org, project), []).risk;
}

verifies("tools.risk-map", "maps every source of risk to one scale, with unknown as high", () => {
  expect(computeToolRisk({ effect_class: "read_only" })).toBe("low");
  expect(computeToolRisk({ effect_class: "idempotent_write" })).toBe("medium");
  expect(computeToolRisk({ effect_class: "non_idempotent_write" })).toBe("high");
  expect(computeToolRisk({ effect_class: "unknown" })).toBe("unknown");
  expect(RISK_OF_INSTRUMENT).toEqual({
    ReadOnly: "low",
    LocalWrite: "medium",
    NetworkWrite: "medium",
    SystemExecute: "high",
    Critical: "critical",
  });
  for (const risk of ["low", "medium", "high", "critical"] as const) {
    expect(computeToolRisk({ effect_class: "unknown", risk })).toBe(risk);
  }
  for (const tolerance of TOLERANCES) {
    expect(tolerates(tolerance, "unknown")).toBe(tolerates(tolerance, "high"));
  }
});

verifies("tools.risk-map", "lets hints of a server raise the risk and never lower it", () => {
  const hinted = (effect_class: string, hints: object, risk?: Risk) =>
    computeToolRisk({ effect_class, hints, ...(risk === undefined ? {} : { risk }) });
  expect(hinted("unknown", { readOnlyHint: true })).toBe("unknown");
  expect(hinted("non_idempotent_write", { readOnlyHint: true, destructiveHint: false })).toBe("high");
  expect(hinted("read_only", { readOnlyHint: false })).toBe("medium");
  expect(hinted("read_only", { destructiveHint: true })).toBe("high");
  expect(hinted("unknown", { destructiveHint: true, readOnlyHint: true }, "low")).toBe("high");
  expect(hinted("unknown", {}, "critical")).toBe("critical");
});

verifies(
  "tools.risk-floor",
  "raises a declared risk to the floor of effect class, grant, host target and category",
  () => {
    const low = { effect_class: "unknown", risk: "low" };
    expect(computeToolRisk(low)).toBe("low");
    expect(computeToolRisk({ ...low, effect_class: "non_idempotent_write" })).toBe("high");
    const mounts = [{ source: "/a", target: "/b", writable: true }];
    expect(computeToolRisk(low, { mounts })).toBe("medium");
    expect(computeToolRisk(low, { mounts: [{ ...mounts[0]!, writable: false }] })).toBe("low");
    expect(computeToolRisk(low, { network: "egress" })).toBe("low");
    expect(computeToolRisk(low, { network: "egress" }, { floor: { egress: "medium" } })).toBe("medium");
    expect(computeToolRisk({ ...low, target: "host" })).toBe("high");
    expect(computeToolRisk({ ...low, category: "Shell" })).toBe("high");
    expect(
      computeToolRisk({ ...low, category: "notes" }, {}, { floor: { categories: { Notes: "critical" } } }),
    ).toBe("critical");
    // Neither a floor below the other sources nor an operator's lower risk lowers the result.
    expect(computeToolRisk({ effect_class: "unknown", risk: "critical", target: "host" })).toBe("critical");
    expect(computeToolRisk({ ...low, target: "host" }, {}, { risks: { t: "low" } })).toBe("high");
    expect(computeToolRisk({ effect_class: "non_idempotent_write" }, {}, { risks: { "*": "low" } })).toBe(
      "high",
    );
  },
);

verifies("tools.risk-floor", "applies a changed policy or grant to the next call to the same tool", () => {
  const item = manifest([toolExport("t", {}, { effect_class: "unknown", risk: "low", category: "notes" })])
    .exports[0]!;
  const plan = { export: item, effect_class: "unknown" as const };
  const [bare, egress] = [grantWith(), grantWith({ network: "egress" })];
  const open = compilePolicy({ floor: { egress: "medium" } }, {});
  const strict = compilePolicy({ floor: { categories: { notes: "critical" } } }, {});
  const risks = [open, strict, open].map((policy) => computeRisk(plan, bare, policy, []).risk);
  expect(risks).toEqual(["low", "critical", "low"]);
  expect([bare, egress, bare].map((grant) => computeRisk(plan, grant, open, []).risk)).toEqual([
    "low",
    "medium",
    "low",
  ]);
});

test("replaces the author's risk with the operator's and lets a project only raise it", () => {
  expect(computeToolRisk({ effect_class: "unknown" }, {}, { risks: { t: "low" } })).toBe("low");
  expect(computeToolRisk({ effect_class: "unknown", risk: "high" }, {}, { risks: { t: "low" } })).toBe("low");
  // If several patterns match, the highest risk applies.
  expect(computeToolRisk({ effect_class: "unknown" }, {}, { risks: { t: "low", "*": "high" } })).toBe("high");
  expect(computeToolRisk({ effect_class: "unknown" }, {}, { risks: { "*": "high", t: "low" } })).toBe("high");
  expect(
    computeToolRisk(
      { effect_class: "unknown", risk: "low" },
      {},
      { risks: { "t*": "medium", x: "critical" } },
    ),
  ).toBe("medium");
  expect(computeToolRisk({ effect_class: "unknown", risk: "low" }, {}, {}, { risks: { t: "high" } })).toBe(
    "high",
  );
  expect(computeToolRisk({ effect_class: "unknown", risk: "high" }, {}, {}, { risks: { t: "low" } })).toBe(
    "high",
  );
});

verifies("tools.risk", "tolerates risk up to each level, high only with full and critical never", () => {
  const runs = (tolerance: (typeof TOLERANCES)[number]) =>
    (["low", "medium", "high", "unknown", "critical"] as const).filter((risk) => tolerates(tolerance, risk));
  expect(TOLERANCES.map(runs)).toEqual([
    [],
    ["low"],
    ["low", "medium"],
    ["low", "medium", "high", "unknown"],
  ]);
  expect(compilePolicy({}, {}).document.tolerance).toEqual({
    conversation: "low",
    background: "low",
    headless: "low",
  });
});

test("finds no floor for a category named like a property of every object", () => {
  for (const category of ["constructor", "Constructor", "__proto__", "hasOwnProperty"]) {
    expect(computeToolRisk({ effect_class: "unknown", risk: "critical", category })).toBe("critical");
    expect(
      computeToolRisk({ effect_class: "unknown", risk: "high", category }, {}, {}, { risks: { t: "low" } }),
    ).toBe("high");
  }
});

test("assesses a plan again for another grant or another policy", () => {
  const [item] = manifest([toolExport("t")]).exports;
  const plan = { export: item!, effect_class: "read_only" as const };
  const [narrow, wide] = [grantWith(), grantWith({ network: "egress" })];
  const [plain, strict] = [compilePolicy({}, {}), compilePolicy({ floor: { egress: "high" } }, {})];
  const risk = (grant: Grant, policy: typeof plain) => computeRisk(plan, grant, policy, []).risk;
  expect(risk(narrow, strict)).toBe("low");
  expect(risk(wide, strict)).toBe("high");
  expect(risk(wide, plain)).toBe("low");
  expect(risk(wide, strict)).toBe("high");
});
