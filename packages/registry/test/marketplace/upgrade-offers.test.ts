/**
 * An installation from the marketplace starts nothing, so the bindings of a package that is already bound are left to an
 * upgrade. The card shows what that upgrade changes.
 */
import type { InstallationSettings, MarketplaceEntry } from "@backplane/contract";
import { MarketplaceEntrySchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const ORIGIN = { name: "Acme", location: "bundled", fetched_at: null, stale: false, problem: null };

const createEntry = (version: string, fields: object = {}): MarketplaceEntry =>
  MarketplaceEntrySchema.parse({
    id: "notes",
    name: "Notes",
    description: "Keeps notes.",
    status: "available",
    package: {
      package_id: "acme/notes",
      version,
      exports: [
        { id: "read", kind: "tool" },
        { id: "write", kind: "tool" },
      ],
    },
    publisher: { name: "Acme" },
    review: { status: "reviewed" },
    source: {},
    oci: `oci://r.test/acme/notes@sha256:${version.replaceAll(".", "").padEnd(64, "0")}`,
    signature: { key_id: `ed25519:${"a".repeat(32)}`, public_key: "PEM" },
    dependency_lock: [],
    install_policy: {},
    permissions: { network: "egress", allowed_domains: ["api.acme.test"] },
    tokens: 0,
    ...fields,
  });

const notes = (version: string, permissions: object = {}) => ({
  ...manifest([toolExport("read", { permissions }), toolExport("write")], { package_id: "acme/notes" }),
  version,
});

interface Marketplace {
  fixture: TestKernel;
  /** Replaces the card, whose artifact has this version and these permissions. */
  publish: (version: string, permissions?: object, fields?: object) => void;
  install: (settings?: InstallationSettings) => ReturnType<TestKernel["kernel"]["marketplace"]["install"]>;
  /** Each bound export with its version. */
  listBound: () => Promise<string[]>;
}

async function createMarketplaceKernel(): Promise<Marketplace> {
  let entry = createEntry("0.1.0");
  let content = notes("0.1.0");
  const marketplace = {
    read: async () => [{ origin: ORIGIN, entries: [entry] }],
    searchServers: async () => ({ items: [], registry: null }),
  };
  const fixture = await createTestKernel({ host: { require_signature: [] }, marketplace });
  const { importer, kernel, store } = fixture;
  const load = importer.import.bind(importer);
  importer.import = async (source) => {
    if ((source.kind as string) !== "oci") return await load(source);
    const oci = { reference: entry.oci, manifest_digest: `sha256:${"0".repeat(64)}` };
    return await load(importer.add(content, {}, "", { origin: "oci", oci }));
  };
  return {
    fixture,
    publish(version, permissions = {}, fields = {}) {
      entry = createEntry(version, fields);
      content = notes(version, permissions);
    },
    install: (settings = {}) => kernel.marketplace.install(admin, "notes", settings),
    listBound: async () =>
      (await store.bindings.list(admin.scope, {}, { limit: 100 })).items
        .map(({ export_id, package_version }) => `${export_id}@${package_version}`)
        .sort(),
  };
}

verifies(
  ["api.marketplace", "upgrade.moves"],
  "installs a version of a bound package without moving its bindings, and offers the upgrade",
  async () => {
    const { fixture, publish, install, listBound } = await createMarketplaceKernel();
    expect((await install()).bindings.map(({ change }) => change)).toEqual(["created", "created"]);
    expect(await install()).not.toHaveProperty("upgrade");
    publish("0.2.0");
    const installed = await install();
    expect(installed).toMatchObject({
      packages: [{ created: true, package: { version: "0.2.0", marketplace: "notes" } }],
      bindings: [],
      upgrade: {
        package_id: "acme/notes",
        package_version: "0.2.0",
        in_use: ["0.1.0"],
        org_wide: false,
      },
    });
    expect(await listBound()).toEqual(["read@0.1.0", "write@0.1.0"]);
    const { package_id, package_version } = installed.upgrade!;
    const upgraded = await fixture.kernel.bindings.upgrade(admin, { package_id, package_version });
    expect(upgraded.map(({ trial }) => trial?.from_version)).toEqual(["0.1.0", "0.1.0"]);
    expect((await install()).bindings.map(({ change }) => change)).toEqual(["unchanged", "unchanged"]);
  },
);

verifies(
  "api.marketplace",
  "does not bind an export while another export of the package is bound in another version",
  async () => {
    const { fixture, publish, install, listBound } = await createMarketplaceKernel();
    await install({ bind: false });
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/notes",
      package_version: "0.1.0",
      export_id: "read",
    });
    publish("0.2.0");
    expect((await install()).upgrade?.in_use).toEqual(["0.1.0"]);
    expect(await listBound()).toEqual(["read@0.1.0"]);
    expect(await install({ bind: false })).not.toHaveProperty("upgrade");
  },
);

verifies(
  "api.marketplace",
  "does not move a binding that another request creates at the same time",
  async () => {
    const { fixture, publish, install, listBound } = await createMarketplaceKernel();
    await install();
    publish("0.2.0");
    const { bindings } = fixture.store;
    const list = bindings.list.bind(bindings);
    bindings.list = async () => {
      bindings.list = list;
      return { items: [], next: null };
    };
    expect((await install()).upgrade?.in_use).toEqual(["0.1.0"]);
    expect(await listBound()).toEqual(["read@0.1.0", "write@0.1.0"]);
  },
);

verifies("api.marketplace", "looks for other versions in the scope of the card", async () => {
  const { publish, install, listBound } = await createMarketplaceKernel();
  await install();
  publish("0.2.0", {}, { install_policy: { scope: "org" } });
  expect((await install()).bindings).toHaveLength(2);
  publish("0.3.0", {}, { install_policy: { scope: "org" } });
  const { upgrade } = await install();
  expect(upgrade).toMatchObject({ in_use: ["0.2.0"], org_wide: true });
  expect(await listBound()).toEqual(["read@0.1.0", "read@0.2.0", "write@0.1.0", "write@0.2.0"]);
});

test("installs an entry for the whole org without binding it", async () => {
  const { publish, install } = await createMarketplaceKernel();
  publish("0.1.0", {}, { install_policy: { scope: "org" } });
  expect(await install({ bind: false })).toMatchObject({ bindings: [], packages: [{ created: true }] });
});

verifies(
  "api.marketplace",
  "refuses settings for bindings that it would leave in their version, and stores nothing",
  async () => {
    const { fixture, publish, install } = await createMarketplaceKernel();
    await install();
    publish("0.2.0");
    for (const settings of [
      { config: {} },
      { policy: { approval: "always" } },
      { rollout: { traffic_percent: 10 } },
      { secrets: { token: "secret://token" } },
    ] as InstallationSettings[])
      await expect(install(settings)).rejects.toMatchObject({
        code: "request.invalid",
        message: expect.stringContaining("is bound in version 0.1.0"),
      });
    const { items } = await fixture.kernel.packages.list(admin, { limit: 10 });
    expect(items.map(({ version }) => version)).toEqual(["0.1.0"]);
  },
);

verifies(
  "api.marketplace",
  "shows on the card which version is in use and what the version of the card changes",
  async () => {
    const { fixture, publish, install } = await createMarketplaceKernel();
    const readCard = () => fixture.kernel.marketplace.get(admin, "notes");
    expect(await readCard()).toMatchObject({ in_use: [], upgrades: [] });
    await install();
    expect(await readCard()).toMatchObject({ in_use: ["0.1.0"], upgrades: [] });
    publish("0.2.0");
    const changes = [{ text: "It will be able to use the network: api.acme.test.", riskier: true }];
    expect(await readCard()).toMatchObject({
      in_use: ["0.1.0"],
      upgrades: [{ from: "0.1.0", changes }],
    });
    const { items } = await fixture.kernel.marketplace.list(admin, {});
    expect(items[0]?.upgrades).toEqual([{ from: "0.1.0", changes }]);
    const withdrawn = {
      status: "contract-ready",
      reason: "Withdrawn.",
      contract: { kind: "tool", document: "docs/authoring.md", requirements: ["Keeps notes."] },
    };
    publish("0.2.0", {}, withdrawn);
    expect(await readCard()).toMatchObject({ in_use: ["0.1.0"], upgrades: [] });
    const other: Caller = { ...admin, scope: { org_id: "org_other", project_id: "proj_other" } };
    expect(await fixture.kernel.marketplace.get(other, "notes")).toMatchObject({ in_use: [], upgrades: [] });
  },
);
