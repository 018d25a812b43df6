import { expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { allowedAddresses } from "../../../src/commands/plugin/registry-addresses.ts";

const NAMES: Record<string, string[]> = {
  "registry.test": ["203.0.113.1"],
  "storage.test": ["203.0.113.2"],
  "rebound.test": ["203.0.113.3", "127.0.0.1"],
  "lan.test": ["10.0.0.5"],
};
const resolve = async (host: string) => NAMES[host] ?? [host];

verifies("pkg.oci", "follows a public registry only to public addresses", async () => {
  const addresses = allowedAddresses("registry.test", resolve);
  expect(await addresses({ host: "storage.test", port: 443 })).toEqual(["203.0.113.2"]);
  for (const host of [
    "127.0.0.1",
    "::1",
    "::ffff:127.0.0.1",
    "169.254.169.254",
    "0.0.0.0",
    "lan.test",
    "rebound.test",
  ])
    await expect(addresses({ host, port: 443 }), host).rejects.toMatchObject({ code: "registry.invalid" });
});

verifies(
  "pkg.oci",
  "uses a registry on this machine or its network, and the private addresses that it refers to",
  async () => {
    for (const registry of ["localhost.test:5000", "lan.test", "127.0.0.1:5000"]) {
      NAMES["localhost.test"] = ["127.0.0.1"];
      const addresses = allowedAddresses(registry, resolve);
      expect(await addresses({ host: "127.0.0.1", port: 5000 })).toEqual(["127.0.0.1"]);
    }
  },
);
