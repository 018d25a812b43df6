import { expect } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createAddressLookup } from "../../../src/commands/plugin/registry-addresses.ts";

const NAMES: Record<string, string[]> = {
  "registry.test": ["203.0.113.1"],
  "storage.test": ["203.0.113.2"],
  "rebound.test": ["203.0.113.3", "127.0.0.1"],
  "lan.test": ["10.0.0.5"],
};
const resolve = async (host: string) => NAMES[host] ?? [host];

verifies("pkg.oci", "follows a public registry only to public addresses", async () => {
  const addresses = createAddressLookup("registry.test", resolve);
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
      const addresses = createAddressLookup(registry, resolve);
      expect(await addresses({ host: "127.0.0.1", port: 5000 })).toEqual(["127.0.0.1"]);
    }
  },
);

verifies("pkg.oci", "treats a registry with public and private addresses as public", async () => {
  NAMES["mixed.test"] = ["203.0.113.4", "127.0.0.1"];
  for (const registry of ["mixed.test", "mixed.test:5000"]) {
    const addresses = createAddressLookup(registry, resolve);
    for (const host of ["127.0.0.1", "lan.test", "rebound.test"])
      await expect(addresses({ host, port: 443 }), host).rejects.toMatchObject({ code: "registry.invalid" });
    // A redirect to another port of its own name cannot reach this machine either.
    for (const port of [443, 5000, 6379])
      expect(await addresses({ host: "mixed.test", port })).toEqual(["203.0.113.4"]);
  }
});

verifies(
  "pkg.oci",
  "keeps the first addresses of a registry whose name resolves differently later",
  async () => {
    for (const [first, later] of [
      ["203.0.113.5", "127.0.0.1"],
      ["10.0.0.6", "203.0.113.5"],
    ] as const) {
      let lookups = 0;
      const addresses = createAddressLookup("turning.test", async (host) =>
        host === "turning.test" ? [lookups++ === 0 ? first : later] : resolve(host),
      );
      for (let n = 0; n < 2; n++) {
        expect(await addresses({ host: "turning.test", port: 443 })).toEqual([first]);
        const redirect = addresses({ host: "127.0.0.1", port: 443 });
        if (first === "10.0.0.6") expect(await redirect).toEqual(["127.0.0.1"]);
        else await expect(redirect).rejects.toMatchObject({ code: "registry.invalid" });
      }
      expect(lookups).toBe(1);
    }
  },
);

verifies("pkg.oci", "resolves the name of a registry again after a failed lookup", async () => {
  let lookups = 0;
  const addresses = createAddressLookup("registry.test", async (host) => {
    if (lookups++ === 0) throw new Error("EAI_AGAIN");
    return await resolve(host);
  });
  await expect(addresses({ host: "registry.test", port: 443 })).rejects.toThrow("EAI_AGAIN");
  expect(await addresses({ host: "registry.test", port: 443 })).toEqual(["203.0.113.1"]);
});
