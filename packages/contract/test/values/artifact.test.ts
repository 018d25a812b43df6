/** Artifact paths are untrusted, because they come from plugins and servers. */
import { expect, test } from "vitest";
import { isArtifactPath } from "../../src/values/artifact.ts";

test.each([
  "a.txt",
  "a folder/b c.txt",
  "b\u00fccher/\u65e5\u672c\u8a9e.txt",
  "bu\u0308cher.txt",
  "\u0643\u062a\u0627\u0628.pdf",
  "\u{1f600}.png",
  "at 3\u202fPM.png",
  "a".repeat(200),
])("accepts the path %j", (path) => {
  expect(isArtifactPath(path)).toBe(true);
});

test.each([
  "",
  "/etc/passwd",
  "a/../b",
  "a//b",
  "a/.",
  "a\\b",
  "a\0b",
  "a\nb",
  "a\u0085b",
  "a\u2028b",
  "a\u202egnp.exe",
  "a\u2066b",
  "a\u200bb",
  "\ufeffa",
  "a\ud800b",
  "a\u{e0041}",
  "a\ue000",
  "a".repeat(201),
  "\u65e5".repeat(86),
  `${"\u65e5".repeat(50)}/${"\u65e5".repeat(50)}`,
  7,
])("rejects the path %j", (path) => {
  expect(isArtifactPath(path)).toBe(false);
});
