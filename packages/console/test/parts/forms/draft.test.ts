import { expect, test } from "vitest";
import { describeDraft } from "../../../src/parts/forms/draft.ts";

test("shows the stored value until a person edits it", () => {
  expect(describeDraft({ a: 1 }, null)).toEqual({
    base: { a: 1 },
    value: { a: 1 },
    changed: false,
    conflict: false,
  });
});

test("keeps an unsaved value when somebody else changes the stored one, and reports the conflict", () => {
  const edit = { base: { a: 1 }, value: { a: 2 } };
  expect(describeDraft({ a: 1 }, edit)).toEqual({ ...edit, changed: true, conflict: false });
  expect(describeDraft({ a: 3 }, edit)).toEqual({ ...edit, changed: true, conflict: true });
});

test("reports no conflict if the stored value became the unsaved one", () => {
  expect(describeDraft({ a: 2 }, { base: { a: 1 }, value: { a: 2 } })).toMatchObject({
    changed: false,
    conflict: false,
  });
});
