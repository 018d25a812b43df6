import { expect, test } from "vitest";
import { RULES } from "../../src/admission/rules.ts";

test("keeps the list of rules and their order", () => {
  expect(RULES.map((rule) => rule.name)).toEqual([
    "stopping",
    "authority",
    "input",
    "delegation",
    "depth",
    "role",
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
