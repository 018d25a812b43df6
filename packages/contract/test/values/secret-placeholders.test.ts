import { expect, test } from "vitest";
import { fillPlaceholders, placeholderSlots } from "../../src/values/secret-placeholders.ts";

const placeholder = (name: string) => `$${`{${name}}`}`;

test("finds the slot of a placeholder in any case", () => {
  expect(placeholderSlots([placeholder("db_password"), { url: `x:${placeholder("MYTOK")}` }])).toEqual([
    "db_password",
    "mytok",
  ]);
  expect(fillPlaceholders(`a ${placeholder("MYTOK")} b`, (slot) => `<${slot}>`)).toBe("a <mytok> b");
});

test("leaves other uses of the dollar sign alone, and unescapes a placeholder", () => {
  const fill = (text: string) => fillPlaceholders(text, () => "secret");
  for (const text of ["$HOME", "$", "$$", "${", placeholder(""), placeholder("1a"), placeholder("a:-b")]) {
    expect([placeholderSlots(text), fill(text)]).toEqual([[], text]);
  }
  const escaped = `$${placeholder("HOME")}`;
  expect([placeholderSlots(escaped), fill(escaped)]).toEqual([[], placeholder("HOME")]);
});
