import { expect, test } from "vitest";
import { readBeneath } from "../../src/artifacts/read-beneath.ts";

/** The size of a file in /proc is 0, so reading it yields more bytes than its size, as for a file that grows. */
test("reads a file that has grown since its size was checked, up to the limit", async () => {
  const content = await readBeneath("/proc", "version", 10_000);
  expect(content.toString()).toMatch(/^Linux version .*\n$/s);
  expect(await readBeneath("/proc", "version", content.length)).toEqual(content);
  expect(await readBeneath("/proc", "version", content.length - 1)).toBe("too_large");
});
