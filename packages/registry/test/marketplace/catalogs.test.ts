/** The marketplace of a whole kernel: several catalogs, trusted keys, and installations that start no process. */
import type { Manifest, MarketplaceEntry } from "@backplane/contract";
import { MarketplaceEntrySchema } from "@backplane/contract/schema";
import type { CatalogContents, InstallationSource, OpenOptions } from "@backplane/ports";
import { generateSigningKey } from "@backplane/supply";
import { manifest, TestImporter, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const key = generateSigningKey();

function createEntry(change: object = {}): MarketplaceEntry {
  return MarketplaceEntrySchema.parse({
    id: "devkit",
    name: "Devkit",
    description: "Tools for developers.",
    status: "available",
    package: { package_id: "acme/devkit", version: "0.1.0", exports: [{ id: "greet", kind: "tool" }] },
    publisher: { name: "Acme" },
    review: { status: "reviewed" },
    source: {},
    oci: `oci://registry.test/acme/devkit@sha256:${"0".repeat(64)}`,
    signature: { key_id: key.key_id, public_key: key.public_key },
    dependency_lock: [],
    install_policy: {},
    tokens: 0,
    ...change,
  });
}

function createCatalog(name: string, ...entries: MarketplaceEntry[]): CatalogContents {
  return { origin: { name, location: name, fetched_at: null, stale: false, problem: null }, entries };
}

/** A registry whose references all name the package that was published last. */
class TestRegistry extends TestImporter {
  #published: InstallationSource = { kind: "folder", path: "" };

  publish(content: Manifest): void {
    const reference = "oci://registry.test/acme/devkit";
    const oci = { reference, manifest_digest: `sha256:${"0".repeat(64)}` };
    this.#published = this.add(content, {}, "", { origin: "oci", oci });
  }

  override open(_source: InstallationSource, options?: OpenOptions) {
    return super.open(this.#published, options);
  }
}

/** A kernel with these catalogs, which a test may replace. */
async function startMarketplace(...catalogs: CatalogContents[]) {
  const registry = new TestRegistry();
  const searches: string[] = [];
  const fixture = await createTestKernel({
    packages: registry,
    host: { require_signature: [] },
    marketplace: {
      read: async () => catalogs,
      async searchServers(text) {
        searches.push(text);
        return { items: [], registry: null };
      },
    },
  });
  const probed: unknown[] = [];
  fixture.runner.probe = async (request) => void probed.push(request);
  const { runner } = fixture;
  const listStarted = () => [...runner.requests, ...runner.describe_requests, ...probed];
  return { ...fixture, registry, searches, catalogs, listStarted };
}

verifies("api.marketplace", "starts no process when a package is installed or replaced", async () => {
  const { kernel, registry, catalogs, listStarted } = await startMarketplace(
    createCatalog("Acme", createEntry()),
  );
  registry.publish(manifest([toolExport("greet")]));
  const first = await kernel.marketplace.install(admin, "devkit", {});
  expect(first.bindings).toMatchObject([{ binding: { export_id: "greet", status: "active" } }]);
  const next = { package_id: "acme/devkit", version: "0.2.0", exports: [{ id: "greet", kind: "tool" }] };
  catalogs[0] = createCatalog("Acme", createEntry({ package: next }));
  registry.publish(manifest([toolExport("greet")], { version: "0.2.0" }));
  const second = await kernel.marketplace.install(admin, "devkit", {});
  expect(second.packages).toMatchObject([{ package: { version: "0.2.0" }, created: true }]);
  expect(listStarted()).toEqual([]);
});

verifies(
  "api.marketplace",
  "refuses to bind a package that has to run to describe its tools, and installs it without bindings",
  async () => {
    const { kernel, registry, listStarted } = await startMarketplace(
      createCatalog("Acme", createEntry({ permissions: { network: "egress" } })),
    );
    registry.publish(manifest([], { runtime: { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] } }));
    for (const settings of [{}, { bind: true }])
      await expect(kernel.marketplace.install(admin, "devkit", settings)).rejects.toMatchObject({
        code: "marketplace.mismatch",
        message: expect.stringContaining("lists its tools only when it runs"),
        fix: expect.stringContaining("--no-bind"),
      });
    expect((await kernel.packages.list(admin, { limit: 10 })).items).toEqual([]);
    const installed = await kernel.marketplace.install(admin, "devkit", { bind: false });
    expect(installed).toMatchObject({ packages: [{ created: true }], bindings: [] });
    expect(listStarted()).toEqual([]);
  },
);

verifies(
  "api.marketplace",
  "shows and installs the entry of the first catalog if a later one has the same id",
  async () => {
    const bundled = createEntry({
      status: "contract-ready",
      reason: "Not published.",
      contract: { kind: "tool", document: "tools.md", requirements: ["Answers."] },
      oci: null,
      signature: null,
    });
    const { kernel, registry } = await startMarketplace(
      createCatalog("bundled", bundled),
      createCatalog("Evil", createEntry({ name: "Devkit with extras" }), createEntry({ id: "other" })),
    );
    registry.publish(manifest([toolExport("greet")]));
    const { items, catalogs } = await kernel.marketplace.list(admin, {});
    expect(items.map(({ id, name, catalog }) => [id, name, catalog.name])).toEqual([
      ["devkit", "Devkit", "bundled"],
      ["other", "Devkit", "Evil"],
    ]);
    expect(catalogs.map(({ name }) => name)).toEqual(["bundled", "Evil"]);
    expect((await kernel.marketplace.get(admin, "devkit")).installable).toBe(false);
    await expect(kernel.marketplace.install(admin, "devkit", {})).rejects.toMatchObject({
      code: "marketplace.not_available",
    });
  },
);

verifies("api.marketplace", "shows whether the key of a card is trusted for its package now", async () => {
  const { kernel } = await startMarketplace(createCatalog("Acme", createEntry()));
  const readTrust = async () => (await kernel.marketplace.get(admin, "devkit")).key_trusted;
  expect(await readTrust()).toBe(false);
  const trusted = { name: "Acme", public_key: key.public_key };
  await kernel.trusted_keys.trust(admin, { ...trusted, packages: ["other/*"] });
  expect(await readTrust()).toBe(false);
  const acme = await kernel.trusted_keys.trust(admin, { ...trusted, packages: ["acme/*"] });
  expect(await readTrust()).toBe(true);
  await kernel.trusted_keys.revoke(admin, acme.key.id, null);
  expect(await readTrust()).toBe(false);
});

verifies("api.marketplace", "searches a public registry only for operators", async () => {
  const { kernel, searches } = await startMarketplace();
  await expect(kernel.marketplace.searchServers(guest, "weather")).rejects.toMatchObject({
    code: "policy.denied",
  });
  expect(searches).toEqual([]);
  expect(await kernel.marketplace.searchServers(user, "weather")).toEqual({ items: [], registry: null });
  expect(searches).toEqual(["weather"]);
});
