import { expect, test } from "vitest";
import { systemResolver } from "../../../src/egress/destinations/resolve.ts";

test("a host of the operator's is looked up as the machine does it; a plugin's only by DNS", async () => {
  const resolve = systemResolver(400);
  const found = await resolve("localhost", true);
  expect(found.some((address) => address === "127.0.0.1" || address === "::1")).toBe(true);
  await expect(resolve("no-such-name.invalid", false)).rejects.toThrow();
});
