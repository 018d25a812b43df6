import type { Approval } from "@backplane/contract";
import { expect, test } from "vitest";
import { groupApprovals } from "../../../src/pages/approvals/group-approvals.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1_000).toISOString();
const approval = (id: string, digest: string, expires: number, session_id: string | null = null) =>
  ({ id, digest, session_id, expires_at: at(expires) }) as Approval;

test("shows identical requests of one session as one, the most urgent first", () => {
  const groups = groupApprovals([
    approval("a", "x", 30),
    approval("b", "y", 10),
    approval("c", "x", 20),
    approval("d", "x", 20, "other"),
  ]);
  expect(groups.map(({ first, all }) => [first.id, all.map(({ id }) => id)])).toEqual([
    ["b", ["b"]],
    ["c", ["c", "a"]],
    ["d", ["d"]],
  ]);
});
