import type { OfferedTool } from "@backplane/door";
import type { Caller, RunRow } from "@backplane/ports";
import { admin, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { mayJoin } from "../../src/loop/begin-turn.ts";
import { Turn } from "../../src/loop/turn.ts";

function createTurn(tools: string[] | null = null): Turn {
  const key = { scope, workspace: "/w", session_id: "s1" };
  const run = { id: "run_1", fence: 1, joins: 2 } as RunRow;
  return new Turn(key, user, run, { iterations: 5, tools: tools === null ? null : new Set(tools) });
}

test("keeps the first reason to stop", () => {
  const turn = createTurn();
  turn.stop("wall");
  turn.stop("user");
  turn.revoke({ code: "authority.key_revoked", message: "", details: {}, fix: "" });
  expect([turn.stopped, turn.revocation, turn.signal.aborted]).toEqual(["wall", null, true]);
});

test("accepts only calls of the current step, and none while the turn ends", async () => {
  const turn = createTurn();
  turn.step = "s2";
  expect([turn.acceptsCall("s1"), turn.acceptsCall("s2")]).toEqual([false, true]);
  await turn.close();
  expect(turn.acceptsCall("s2")).toBe(false);
  turn.reopen();
  expect(turn.acceptsCall("s2")).toBe(true);
});

test("closes only after its calls have ended", async () => {
  const turn = createTurn();
  const call = Promise.withResolvers<void>();
  void turn.waitFor(call.promise);
  let closed = false;
  const closing = turn.close().then(() => {
    closed = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect([closed, turn.signal.aborted]).toEqual([false, true]);
  call.resolve();
  await closing;
  expect(closed).toBe(true);
});

test("counts a joining message before it is written, and forgets one that was not written", async () => {
  const turn = createTurn();
  const first = Promise.withResolvers<string>();
  const joined = turn.join(first.promise);
  expect([turn.has_new_messages, turn.joined]).toEqual([true, 1]);
  first.resolve("written");
  expect(await joined).toBe("written");
  await turn.waitForJoining();
  expect(turn.has_new_messages).toBe(false);
  const second = Promise.withResolvers<string>();
  const failed = turn.join(second.promise);
  second.reject(new Error("not written"));
  await expect(failed).rejects.toThrow("not written");
  expect([turn.has_new_messages, turn.joined]).toEqual([false, 1]);
});

test("counts each message from another gateway only once", () => {
  const turn = createTurn();
  expect([turn.countJoinedElsewhere(2), turn.countJoinedElsewhere(3), turn.countJoinedElsewhere(3)]).toEqual([
    false,
    true,
    false,
  ]);
  expect(turn.new_messages).toBe(1);
});

test("offers the allowed tools, and deferred ones after they were found", () => {
  const turn = createTurn(["plain", "late"]);
  const tool = (name: string, deferred_by: OfferedTool["deferred_by"]) =>
    [name, { name, deferred_by } as OfferedTool] as const;
  turn.tools = new Map([tool("plain", null), tool("late", "policy"), tool("forbidden", null)]);
  expect(turn.listOfferedTools()).toEqual(["plain"]);
  turn.found_tools.add("late");
  expect(turn.listOfferedTools()).toEqual(["plain", "late"]);
});

describe("a message", () => {
  const other = (more: Partial<Caller>): Caller => ({ ...user, actor: "key_other", ...more });
  const delegation = { invocation_id: "inv_1", scopes: [], grant: {} } as unknown as Caller["delegation"];

  test.for<[string, Caller, Caller, boolean]>([
    ["joins a turn of its own sender", user, { ...user, role: "guest" }, true],
    ["joins a turn of a caller with the same role", user, other({}), true],
    ["joins a turn of a caller with a lower role", user, other({ role: "owner" }), true],
    ["does not join a turn of a caller with a higher role", user, other({ role: "guest" }), false],
    ["does not join a turn of an admin if its sender is not an admin", other({ admin: true }), user, false],
    ["does not join a turn if a plugin sent it", user, other({ delegation: delegation! }), false],
    ["does not join a turn of the host's admin", admin, other({ role: "owner", admin: true }), false],
  ])("%s", ([, turn, sender, joins]) => {
    expect(mayJoin(turn, sender)).toBe(joins);
  });
});

test("hides tools deferred by budget or profile only from agents that may search, and tools deferred by policy from all", () => {
  const tool = (deferred_by: OfferedTool["deferred_by"]) => ({ name: "a", deferred_by }) as OfferedTool;
  for (const [allowed, deferred_by, hidden] of [
    [null, null, false],
    [null, "budget", true],
    [["a"], "budget", false],
    [["a"], "profile", false],
    [["a"], "policy", true],
    [["a", "tool_search"], "budget", true],
  ] as const) {
    const turn = createTurn(allowed === null ? null : [...allowed]);
    expect(turn.hides(tool(deferred_by)), JSON.stringify([allowed, deferred_by])).toBe(hidden);
    turn.found_tools.add("a");
    expect(turn.hides(tool(deferred_by))).toBe(false);
  }
});
