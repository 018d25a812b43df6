import { createHash } from "node:crypto";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { tapeName } from "../../src/sessions/tape-name.ts";

verifies("tape.name", "a tape is named after its workspace and its session", () => {
  // As `md5sum` prints them: d41d8cd98f00b204e9800998ecf8427e, 5d41402abc4b2a76b9719d911017c592.
  expect(tapeName("", "hello")).toBe("d41d8cd98f00b204__5d41402abc4b2a76");
  const half = (text: string) => createHash("md5").update(text).digest("hex").slice(0, 16);
  expect(tapeName("/home/ä", "sess_1")).toBe(`${half("/home/ä")}__${half("sess_1")}`);
  expect(tapeName("/a", "s")).not.toBe(tapeName("/b", "s"));
});
