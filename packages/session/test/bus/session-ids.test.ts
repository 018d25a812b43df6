import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { checkClientSessionId, findSessionIdProblem, isBridgeOf } from "../../src/bus/session-ids.ts";
import { codeOfThrown } from "./test-bus.ts";

verifies("bus.session-ids", "rejects reserved ids and forged child ids from clients", () => {
  const reserved = [
    "kernel",
    "_bridge:",
    "_bridge:web",
    "_bridge:web:1",
    "s::agent::1",
    "::agent::",
    "a::agent::b::agent::c",
  ];
  const malformed = [
    "",
    "kernel ",
    " kernel",
    "ker\u200bnel",
    "kernel\n",
    "_bridge\u00a0:web",
    "a\u0000b",
    "s".repeat(257),
  ];
  for (const id of [...reserved, ...malformed]) {
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

verifies(
  "bus.session-ids",
  "rejects every id that contains the agent separator or starts with the bridge prefix",
  () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        expect(findSessionIdProblem(`${before}::agent::${after}`)).not.toBeNull();
        expect(findSessionIdProblem(`_bridge:${after}`)).not.toBeNull();
      }),
    );
  },
);

test("matches a private session only with the full name of its plugin", () => {
  const cases = {
    "_bridge:web": true,
    "_bridge:web:x": true,
    "_bridge:webs": false,
    "_bridge:we": false,
    "_bridge:": false,
  };
  for (const [id, expected] of Object.entries(cases))
    expect([id, isBridgeOf("web", id)]).toEqual([id, expected]);
});
