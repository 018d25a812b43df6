import { EVENT_TEXT_CHARS, eventText } from "@backplane/contract";
import { expect, test } from "vitest";

test("removes delegated tokens and API keys from the text of an event, even at the limit", () => {
  const token = `vai_dlg_${"x".repeat(43)}`;
  expect(eventText(`use ${token} now`)).toBe("use [redacted] now");
  expect(eventText(`my key is bpk_${"k".repeat(43)}`)).toBe("my key is [redacted]");
  const text = eventText("a".repeat(EVENT_TEXT_CHARS - 20) + token);
  expect(text).toHaveLength(EVENT_TEXT_CHARS - 20 + "[redacted]".length);
});

test("truncates the text of an event at the limit", () => {
  expect(eventText("short")).toBe("short");
  const text = eventText("a".repeat(EVENT_TEXT_CHARS + 1));
  expect(text).toHaveLength(EVENT_TEXT_CHARS);
  expect(text.endsWith("…")).toBe(true);
});
