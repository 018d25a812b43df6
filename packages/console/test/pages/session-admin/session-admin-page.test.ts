import { expect, test } from "vitest";
import { findChanges } from "../../../src/pages/session-admin/session-admin-page.tsx";

test("sends a deleted key of the metadata as null", () => {
  expect(findChanges({ title: "A", strategy: "react", kept: 1 }, { title: "B", kept: 1, more: [] })).toEqual({
    title: "B",
    strategy: null,
    more: [],
  });
});
