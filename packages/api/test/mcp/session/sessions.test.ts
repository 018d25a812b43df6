import type { Caller } from "@backplane/ports";
import { expect, test } from "vitest";
import { createOpenCall, McpSessions, SESSION_LIMITS } from "../../../src/mcp/session/sessions.ts";
import { userNamed as caller } from "../../support/callers.ts";

const SESSION_PARAMS = { version: "2025-11-25", capabilities: {}, server: null };

let now = 0;
const clock = { now: () => now, monotonic: () => now, after: () => ({ stop() {} }) };

test("expires idle sessions after an hour, but not busy ones", () => {
  now = 0;
  const sessions = new McpSessions(clock);
  const idle = sessions.open(caller("a"), SESSION_PARAMS);
  const busy = sessions.open(caller("a"), SESSION_PARAMS);
  busy.calls.set(1, createOpenCall(null));
  now = SESSION_LIMITS.idle_ms + 1;
  expect(sessions.find(caller("a"), idle.id, null)).toBe(null);
  expect(sessions.find(caller("a"), busy.id, null)).toBe(busy);
  expect(sessions.find(caller("b"), busy.id, null)).toBe(null);
  expect(sessions.size).toBe(1);
});

test("limits the sessions of a delegated token, and evicts idle ones when the total limit is reached", () => {
  now = 0;
  const sessions = new McpSessions(clock, { sessions: 40, per_caller: 30 });
  const grant = {} as NonNullable<Caller["delegation"]>["grant"];
  const plugin = (id: string): Caller => ({
    ...caller(id),
    delegation: { invocation_id: id, scopes: ["tools:invoke"], grant, delivery_id: null, depth: 0 },
  });
  for (let times = 0; times < 100; times++) sessions.open(plugin("inv_1"), SESSION_PARAMS);
  expect(sessions.size).toBe(SESSION_LIMITS.per_invocation);
  // The sessions of later tokens fill the table up to its limit.
  for (const id of ["inv_2", "inv_3"])
    for (let times = 0; times < SESSION_LIMITS.per_invocation && sessions.size < 40; times++)
      sessions.open(plugin(id), SESSION_PARAMS);
  expect(sessions.size).toBe(40);
  now = SESSION_LIMITS.idle_ms / 10;
  expect(sessions.find(caller("a"), sessions.open(caller("a"), SESSION_PARAMS).id, null)).not.toBe(null);
});

test("evicts the oldest idle session of a caller at its limit, not those of others", () => {
  const sessions = new McpSessions(clock, { sessions: 4, per_caller: 2 });
  const other_session = sessions.open(caller("b"), SESSION_PARAMS);
  const [first, second] = [
    sessions.open(caller("a"), SESSION_PARAMS),
    sessions.open(caller("a"), SESSION_PARAMS),
  ];
  first.calls.set(1, createOpenCall(null));
  const third = sessions.open(caller("a"), SESSION_PARAMS);
  expect([first, second, third].map(({ id }) => sessions.find(caller("a"), id, null) !== null)).toEqual([
    true,
    false,
    true,
  ]);
  third.calls.set(1, createOpenCall(null));
  expect(() => sessions.open(caller("a"), SESSION_PARAMS)).toThrow(/Too many/);
  expect(sessions.find(caller("b"), other_session.id, null)).toBe(other_session);
});

test("does not find a session of one endpoint at another", () => {
  const sessions = new McpSessions(clock);
  const session = sessions.open(caller("a"), { ...SESSION_PARAMS, server: "bind_1" });
  expect(sessions.find(caller("a"), session.id, null)).toBe(null);
  expect(sessions.find(caller("a"), session.id, "bind_2")).toBe(null);
  expect(sessions.find(caller("a"), session.id, "bind_1")).toBe(session);
});

test("releases a subscription that the server confirmed after the session had ended", () => {
  const sessions = new McpSessions(clock);
  const session = sessions.open(caller("a"), SESSION_PARAMS);
  const released: string[] = [];
  session.keepSubscription("x://one", () => released.push("first"));
  session.keepSubscription("x://one", () => released.push("second"));
  expect(released).toEqual(["first"]);
  sessions.remove(session);
  session.keepSubscription("x://two", () => released.push("late"));
  expect(released).toEqual(["first", "second", "late"]);
});
