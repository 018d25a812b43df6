import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SIDE_RULES, VAI_RULES } from "../../src/index.ts";

test("spec/protocol.md lists every rule with its sentence, in the same order", () => {
  const [, text = ""] = readFileSync("spec/protocol.md", "utf8").split("\n## Rules\n");
  const listed = text.split("\n").filter((line) => line.startsWith("| `") && !line.endsWith("| rule |"));
  const rules = [...Object.entries(VAI_RULES), ...Object.entries(SIDE_RULES)];
  expect(listed).toEqual(rules.map(([id, { rule }]) => `| \`${id}\` | ${rule} |`));
});
