import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { checkClientSessionId, clientSessionIdProblem, isBridgeOf } from "../../src/bus/session-ids.ts";
import { codeOfThrown } from "./open-bus.ts";

verifies("bus.session-ids", "no client may use the reserved ids or forge a child's", () => {
  const refused = [
    "kernel",
    "_bridge:",
    "_bridge:web",
    "_bridge:web:1",
    "s::agent::1",
    "::agent::",
    "a::agent::b::agent::c",
  ];
  const blurred = [
    "",
    "kernel ",
    " kernel",
    "ker\u200bnel",
    "kernel\n",
    "_bridge\u00a0:web",
    "a\u0000b",
    "s".repeat(257),
  ];
  for (const id of [...refused, ...blurred]) {
    expect([id, codeOfThrown(() => checkClientSessionId(id))]).toEqual([id, "request.invalid"]);
  }
  for (const id of [
    "sess_01",
    "support-42",
    "Kernel2",
    "kernel-1",
    "a:b",
    "agent",
    "gespräch",
    "_bridge",
    "a::agent:b",
  ]) {
    expect(checkClientSessionId(id)).toBe(id);
  }
});

verifies("bus.session-ids", "whatever surrounds the separator, the id is refused", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (before, after) => {
      expect(clientSessionIdProblem(`${before}::agent::${after}`)).not.toBeNull();
      expect(clientSessionIdProblem(`_bridge:${after}`)).not.toBeNull();
    }),
  );
});

test("a private session belongs to the plugin whose whole name follows", () => {
  const cases = {
    "_bridge:web": true,
    "_bridge:web:x": true,
    "_bridge:webs": false,
    "_bridge:we": false,
    "_bridge:": false,
  };
  for (const [id, own] of Object.entries(cases)) expect([id, isBridgeOf("web", id)]).toEqual([id, own]);
});
