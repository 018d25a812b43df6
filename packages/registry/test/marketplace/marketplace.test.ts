/** An operator approves a card, so an artifact that differs from its card or requests more is refused. */
import type { MarketplaceEntry, Package } from "@backplane/contract";
import { MarketplaceEntrySchema } from "@backplane/contract/schema";
import type { KernelDeps } from "@backplane/ports";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { InstallChecked } from "../../src/installations/installations.ts";
import { createMarketplace } from "../../src/marketplace/marketplace.ts";

const KEY = `ed25519:${"a".repeat(32)}`;
const LOCK = [{ path: "package-lock.json", sha256: "1".repeat(64) }];

const ENTRY: MarketplaceEntry = MarketplaceEntrySchema.parse({
  id: "weave",
  name: "Weave",
  description: "Weaves.",
  status: "available",
  package: { package_id: "acme/weave", version: "1.0.0", exports: [{ id: "weave", kind: "tool" }] },
  publisher: { name: "Acme" },
  review: { status: "reviewed" },
  source: {},
  oci: `oci://registry.test/acme/weave@sha256:${"0".repeat(64)}`,
  signature: { key_id: KEY, public_key: "PEM" },
  dependency_lock: LOCK,
  install_policy: {},
  permissions: {
    network: "egress",
    filesystem: "assets_ro",
    allowed_domains: ["api.acme.test", "*.cdn.test"],
  },
  tokens: 0,
});

const tool = (id: string, permissions: object = {}) => ({
  id,
  kind: "tool",
  permissions: {
    network: "none",
    filesystem: "none",
    secret_slots: [],
    gateway_api_scopes: [],
    ...permissions,
  },
});

interface Artifact {
  exports?: object[];
  signatures?: readonly unknown[];
}

/** Installs the card's entry when its registry has this artifact. Returns the signatures that were selected. */
async function install({ exports = [tool("weave")], signatures = [] }: Artifact, oci?: string) {
  const manifest = { runtime: { protocol: "vai.rpc.v1" }, exports };
  const pack = { package_id: "acme/weave", version: "1.0.0", manifest } as unknown as Package;
  const selected: unknown[] = [];
  const installChecked: InstallChecked = async (_caller, _source, _settings, check, options) => {
    selected.push(...options!.entry!.selectSignatures(signatures));
    check([pack]);
    return {} as never;
  };
  const origin = { name: "Acme", location: "bundled", fetched_at: null, stale: false, problem: null };
  const deps = {
    marketplace: { read: async () => [{ origin, entries: [ENTRY] }] },
  } as unknown as KernelDeps;
  await createMarketplace(deps, installChecked).install(admin, "weave", { oci });
  return selected;
}

const egress = (allowed_domains?: string[]) => ({ network: "egress", allowed_domains });
const hook = { ...tool("spy"), kind: "hook" };
const card_signature = { key_id: KEY, dependency_lock: LOCK };

const MISMATCHES: [label: string, artifact: Artifact, message: string][] = [
  ["an export that the card does not show", { exports: [tool("weave"), hook] }, "also has the hook spy"],
  ["an export of another kind", { exports: [{ ...tool("weave"), kind: "hook" }] }, "has no tool weave"],
  ["another domain", { exports: [tool("weave", egress(["evil.test"]))] }, "also requests evil.test"],
  ["more file access", { exports: [tool("weave", { filesystem: "scratch" })] }, "the filesystem (scratch)"],
  ["every domain", { exports: [tool("weave", egress())] }, "also requests all domains"],
  ["a secret", { exports: [tool("weave", { secret_slots: ["token"] })] }, "also requests the secret token"],
  [
    "a scope of the gateway",
    { exports: [tool("weave", { gateway_api_scopes: ["llm:invoke"] })] },
    "also requests llm:invoke",
  ],
  [
    "the signature of another key",
    { signatures: [{ ...card_signature, key_id: "ed25519:b" }] },
    "is not signed with",
  ],
  [
    "other dependencies",
    { signatures: [{ ...card_signature, dependency_lock: [{ ...LOCK[0], sha256: "2".repeat(64) }] }] },
    "has different dependencies",
  ],
];

for (const [label, artifact, message] of MISMATCHES) {
  verifies("api.marketplace", `refuses an artifact with ${label}`, async () => {
    await expect(install(artifact)).rejects.toMatchObject({
      code: "marketplace.mismatch",
      message: expect.stringContaining(message),
    });
  });
}

verifies(
  "api.marketplace",
  "uses the signature of the key on the card when several keys have signed",
  async () => {
    const other_signature = { ...card_signature, key_id: "ed25519:b" };
    expect(await install({ signatures: [other_signature, card_signature] })).toEqual([card_signature]);
    expect(await install({ exports: [tool("weave", egress(["api.acme.test"]))] })).toEqual([]);
  },
);

test("installs an artifact that requests less than its card shows", async () => {
  for (const filesystem of ["none", "assets_ro"])
    expect(await install({ exports: [tool("weave", { filesystem })] })).toEqual([]);
  expect(await install({ exports: [tool("weave", egress(["img.cdn.test:443"]))] })).toEqual([]);
});

verifies(
  "api.marketplace",
  "refuses an entry whose artifact has changed since its card was read",
  async () => {
    await install({}, ENTRY.oci!);
    await expect(install({}, ENTRY.oci!.replace(/0$/, "1"))).rejects.toMatchObject({
      code: "marketplace.mismatch",
      details: { actual: ENTRY.oci },
    });
  },
);
