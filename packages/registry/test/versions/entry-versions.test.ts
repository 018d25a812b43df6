/** A package from the marketplace is compared with the card that it was installed from. */
import type { MarketplaceEntry, MarketplaceOrigin } from "@backplane/contract";
import { MarketplaceEntrySchema } from "@backplane/contract/schema";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const ARTIFACT = `oci://r.test/acme/notes@sha256:${"0".repeat(64)}`;

const createEntry = (fields: object = {}): MarketplaceEntry =>
  MarketplaceEntrySchema.parse({
    id: "notes",
    name: "Notes",
    description: "Keeps notes.",
    status: "available",
    package: { package_id: "acme/notes", version: "0.2.0", exports: [{ id: "greet", kind: "tool" }] },
    publisher: { name: "Acme" },
    review: { status: "reviewed" },
    source: {},
    oci: `oci://r.test/acme/notes@sha256:${"1".repeat(64)}`,
    signature: { key_id: `ed25519:${"a".repeat(32)}`, public_key: "PEM" },
    dependency_lock: [],
    install_policy: {},
    tokens: 0,
    ...fields,
  });

const FRESH: MarketplaceOrigin = {
  name: "Acme",
  location: "https://plugins.test/catalog.json",
  fetched_at: "2026-05-01T00:00:00.000Z",
  stale: false,
  problem: null,
};

/** The row of acme/notes 0.1.0, which was installed from the entry `notes`, for a catalog with this content. */
async function readRow(entries: readonly MarketplaceEntry[], origin: MarketplaceOrigin = FRESH) {
  const marketplace = {
    read: async () => [{ origin, entries }],
    searchServers: async () => ({ items: [], registry: null }),
  };
  const fixture = await createTestKernel({ host: { require_signature: [] }, marketplace });
  const { importer } = fixture;
  const load = importer.import.bind(importer);
  importer.import = async (source) => ({
    ...(await load(source)),
    origin: "marketplace",
    marketplace: "notes",
    oci: { reference: ARTIFACT, manifest_digest: ARTIFACT.split("@")[1]! },
  });
  await fixture.bind(manifest([toolExport("greet")], { package_id: "acme/notes" }));
  return (await fixture.kernel.packages.listOutdated(admin))[0];
}

verifies("api.marketplace", "compares the version in use with the card it was installed from", async () => {
  expect(await readRow([createEntry()])).toMatchObject({
    in_use: ["0.1.0"],
    newest_available: "0.2.0",
    source: "marketplace:notes",
    outdated: true,
    note: null,
  });
  const current = createEntry({ package: { ...createEntry().package, version: "0.1.0" }, oci: ARTIFACT });
  expect(await readRow([current])).toMatchObject({ newest_available: "0.1.0", outdated: false, note: null });
});

verifies(
  "api.marketplace",
  "uses the copy of a catalog that cannot be read, and says how old it is",
  async () => {
    const origin = { ...FRESH, stale: true, problem: "plugins.test returned HTTP 503." };
    expect(await readRow([createEntry()], origin)).toMatchObject({
      newest_available: "0.2.0",
      outdated: true,
      note: "The catalog Acme cannot be read, so its copy from 2026-05-01T00:00:00.000Z is used: plugins.test returned HTTP 503.",
    });
  },
);

const other_package = { ...createEntry().package, package_id: "acme/other" };
const UNKNOWN: [title: string, entries: MarketplaceEntry[], note: string][] = [
  ["an entry that was removed", [], "No catalog has the marketplace entry notes."],
  ["an entry of another package", [createEntry({ package: other_package })], "is for acme/other now"],
  [
    "an entry that was withdrawn",
    [
      createEntry({
        status: "contract-ready",
        reason: "Withdrawn.",
        contract: { kind: "tool", document: "docs/authoring.md", requirements: ["Keeps notes."] },
      }),
    ],
    "cannot be installed now. Withdrawn.",
  ],
  [
    "other content under the same version",
    [createEntry({ package: { ...createEntry().package, version: "0.1.0" } })],
    "other content under the version 0.1.0",
  ],
];

for (const [title, entries, note] of UNKNOWN)
  verifies("api.marketplace", `reports the newest version as unknown for ${title}`, async () => {
    expect(await readRow(entries)).toMatchObject({
      newest_available: null,
      source: null,
      outdated: false,
      note: expect.stringContaining(note),
    });
  });

verifies("api.marketplace", "says which catalog cannot be read if no catalog has the entry", async () => {
  const origin = { ...FRESH, fetched_at: null, stale: true, problem: "plugins.test returned HTTP 503." };
  expect((await readRow([], origin))?.note).toBe(
    "No catalog has the marketplace entry notes. The catalog Acme cannot be read: plugins.test returned HTTP 503.",
  );
});
