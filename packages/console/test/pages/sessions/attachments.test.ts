import { expect, test } from "vitest";
import {
  attachmentsProblem,
  fileOf,
  MAX_ATTACHMENTS,
  readAttachment,
  scaledSize,
  toBase64,
} from "../../../src/pages/sessions/attachments.ts";

test("reads text files as text, other files as bytes, and limits their size", async () => {
  const notes = await readAttachment(new File(["# Notes"], "my notes.md"));
  expect(notes).toMatchObject({ name: "my notes.md", bytes: 7, block: { resource: { text: "# Notes" } } });
  expect(fileOf(notes.block)).toEqual({ name: "my notes.md", mime: "text/plain", bytes: 7 });
  const bytes = await readAttachment(new File([Uint8Array.of(0, 255)], "fake.txt"));
  expect(bytes.block).toMatchObject({ resource: { blob: "AP8=" } });
  await expect(readAttachment(new File([new Uint8Array(800_000)], "big.bin"))).rejects.toThrow(
    "big.bin is 800 kB. A message can have files of up to 740 kB.",
  );
  await expect(readAttachment(new File([], "none.txt"))).rejects.toThrow("none.txt is empty.");
  expect(attachmentsProblem("hello", [notes])).toBeNull();
  expect(attachmentsProblem("x".repeat(1_100_000), [])).toContain("Shorten it");
  expect(attachmentsProblem("", Array(MAX_ATTACHMENTS + 2).fill(notes))).toContain("Remove 2.");
  expect(toBase64(new Uint8Array(100_000))).toHaveLength(133_336);
  expect(scaledSize(4_000, 3_000)).toEqual({ width: 1_568, height: 1_176 });
  expect(scaledSize(10, 5)).toEqual({ width: 10, height: 5 });
});
