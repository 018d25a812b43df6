import { expect, test } from "vitest";
import { systemResolver } from "../../../src/egress/destinations/resolve.ts";

test("resolves an operator's host with the system resolver, and rejects an unknown name", async () => {
  const resolve = systemResolver(400);
  const addresses = await resolve("localhost", true);
  expect(addresses.some((address) => address === "127.0.0.1" || address === "::1")).toBe(true);
  await expect(resolve("no-such-name.invalid", false)).rejects.toThrow();
});
