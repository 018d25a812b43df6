import { expect, test } from "vitest";
import { ruleOf } from "../../../src/pages/approvals/allow-rule-dialog.tsx";

test("sends the chosen fields of an allow rule, and leaves out those with their default", () => {
  const draft = {
    covers: "tool",
    subject: "run_command",
    conditions: [{ name: "command", pattern: "git *" }],
    only_these_arguments: true,
    max_risk: "medium",
    who: "everyone",
    org_wide: false,
    note: " for releases ",
  } as const;
  expect(ruleOf(draft)).toEqual({
    tool: "run_command",
    arguments: { command: { matches: "git *" } },
    other_arguments: false,
    max_risk: "medium",
    identity: null,
    note: "for releases",
  });
  const all = {
    ...draft,
    covers: "server",
    subject: "acme/desk",
    conditions: [],
    only_these_arguments: false,
  } as const;
  expect(ruleOf({ ...all, max_risk: null, who: "me", org_wide: true, note: "" })).toEqual({
    server: "acme/desk",
    org_wide: true,
  });
});
