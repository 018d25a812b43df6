import { expect, test } from "vitest";
import { matchesSession, newSessionId, titleFrom } from "../../../src/pages/sessions/session-text.ts";

test("names a session after the first line of its first message, and finds it by the words of its title", () => {
  expect(titleFrom("\n## Fix the build\nplease")).toBe("Fix the build");
  expect(titleFrom("word ".repeat(30))).toBe(`${"word ".repeat(11)}word…`);
  expect(titleFrom("")).toBe("New chat");
  expect(newSessionId(new Date("2026-01-02T03:04:05Z"))).toMatch(/^chat-20260102-030405-[0-9a-z]{5}$/);
  expect(matchesSession({ id: "s-1", metadata: { title: "Order 4711" } }, "4711 order")).toBe(true);
  expect(matchesSession({ id: "s-1", metadata: {} }, "4711")).toBe(false);
});
