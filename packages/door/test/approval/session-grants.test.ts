import type { Approval } from "@backplane/contract";
import { createIdSource } from "@backplane/contract";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { type SessionCall, SessionGrants } from "../../src/approval/session-grants.ts";

const CALL: SessionCall = { scope, workspace: "main", session_id: "s1", identity: "key_user" };
const approval = (digest: string) => ({ ...scope, tool: "rm", digest }) as Approval;

function createGrants(): SessionGrants {
  const clock = new TestClock();
  let n = 0;
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void bytes.fill(n++),
  );
  return new SessionGrants({ ids, clock });
}

test("holds for one session, workspace, project, identity and digest", () => {
  const grants = createGrants();
  grants.remember(approval("d1"), CALL, user);
  expect(grants.findApprover(CALL, "d1")).toBe(user);
  expect(grants.findApprover(CALL, "d2")).toBeNull();
  const others: Partial<SessionCall>[] = [
    { session_id: "s2" },
    { workspace: "other" },
    { identity: "key_other" },
    { scope: { ...scope, project_id: "proj_other" } },
  ];
  for (const other of others) expect(grants.findApprover({ ...CALL, ...other }, "d1")).toBeNull();
});

test("covers the sub-agents of its session and not their parents", () => {
  const grants = createGrants();
  const child = { ...CALL, session_id: "s1::agent::a" };
  const grandchild = { ...CALL, session_id: "s1::agent::a::agent::b" };
  grants.remember(approval("d1"), child, user);
  expect(grants.findApprover(grandchild, "d1")).toBe(user);
  expect(grants.findApprover(child, "d1")).toBe(user);
  expect(grants.findApprover(CALL, "d1")).toBeNull();
  expect(grants.findApprover({ ...CALL, session_id: "s1::agent::z" }, "d1")).toBeNull();
});

test("forgets the oldest beyond the limit", () => {
  const grants = createGrants();
  for (let n = 0; n <= 10_000; n++) grants.remember(approval(`d${n}`), CALL, user);
  expect(grants.size).toBe(10_000);
  expect(grants.findApprover(CALL, "d0")).toBeNull();
  expect(grants.findApprover(CALL, "d10000")).toBe(user);
});
