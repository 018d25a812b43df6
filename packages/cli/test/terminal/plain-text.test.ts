import { describe, expect, test } from "vitest";
import { plainLine, plainText } from "../../src/terminal/plain-text.ts";

describe("plain text", () => {
  test.each([
    ["color", "a\u001b[1;31mb\u001b[0mc", "abc"],
    ["cursor moves", "a\u001b[2J\u001b[Hb", "ab"],
    ["a title", "a\u001b]0;owned\u0007b", "ab"],
    ["a link, ended by ST", "a\u001b]8;;http://x\u001b\\b", "ab"],
    ["the start of a title that never ends", "a\u001b]0;owned", "a;owned"],
    ["one-byte CSI", "a\u009b31mb", "ab"],
    ["bell, backspace, delete", "a\u0007\u0008\u007fb", "ab"],
    ["text direction overrides", "a\u202eb\u2066c", "abc"],
    ["a lone carriage return", "safe\rEVIL", "safeEVIL"],
  ])("removes %s", (_name, dirty, clean) => {
    expect(plainText(dirty)).toBe(clean);
  });

  test("keeps line breaks, tabs and other scripts", () => {
    expect(plainText("a\tb\r\nč 漢字 🙂\n")).toBe("a\tb\nč 漢字 🙂\n");
  });

  test("marks invisible characters in a line", () => {
    expect(plainLine("a\u{e0069}\u{e0067}\u200bb")).toBe("a\ufffdb");
  });

  test("puts text on one line", () => {
    expect(plainLine("  one\n  two\r\nthree ")).toBe("one · two · three");
  });
});
