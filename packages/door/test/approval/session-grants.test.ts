import { type Approval, createIdSource } from "@backplane/contract";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { type SessionCall, SessionGrants } from "../../src/approval/session-grants.ts";

const CALL: SessionCall = { scope, workspace: "main", session_id: "s1", identity: "key_user" };
const approval = (digest: string) => ({ ...scope, tool: "rm", digest }) as Approval;

function remember(grants: SessionGrants, digest: string, call: SessionCall): void {
  grants.remember(approval(digest), call, user, { covers: "arguments", digest });
}

function createGrants(): SessionGrants {
  const clock = new TestClock();
  let n = 0;
  const ids = createIdSource(
    () => clock.now(),
    (bytes) => void bytes.fill(n++),
  );
  return new SessionGrants({ ids, clock });
}

test("a grant is valid for one session, workspace, project, identity and digest", () => {
  const grants = createGrants();
  remember(grants, "d1", CALL);
  expect(grants.find(CALL, "d1")?.approver).toBe(user);
  expect(grants.find(CALL, "d2")).toBeNull();
  const others: Partial<SessionCall>[] = [
    { session_id: "s2" },
    { workspace: "other" },
    { identity: "key_other" },
    { scope: { ...scope, project_id: "proj_other" } },
  ];
  for (const other of others) expect(grants.find({ ...CALL, ...other }, "d1")).toBeNull();
});

test("a grant covers the sub-agents of its session but not the parent sessions", () => {
  const grants = createGrants();
  const child = { ...CALL, session_id: "s1::agent::a" };
  const grandchild = { ...CALL, session_id: "s1::agent::a::agent::b" };
  remember(grants, "d1", child);
  expect(grants.find(grandchild, "d1")?.approver).toBe(user);
  expect(grants.find(child, "d1")?.approver).toBe(user);
  expect(grants.find(CALL, "d1")).toBeNull();
  expect(grants.find({ ...CALL, session_id: "s1::agent::z" }, "d1")).toBeNull();
});

test("forgets the oldest grant beyond the limit", () => {
  const grants = createGrants();
  for (let n = 0; n <= 10_000; n++) remember(grants, `d${n}`, CALL);
  expect(grants.size).toBe(10_000);
  expect(grants.find(CALL, "d0")).toBeNull();
  expect(grants.find(CALL, "d10000")?.approver).toBe(user);
});
