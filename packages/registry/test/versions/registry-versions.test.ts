/** The newest version of a package in an OCI registry: its tags are compared, and its manifest is read. */
import { BackplaneError } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const REPOSITORY = "oci://r.test/acme/notes";
const INSTALLED = `sha256:${"ab".repeat(32)}`;

/** An artifact of the registry; without a version it states neither id nor version. */
interface Artifact {
  digest?: string;
  package_id?: string;
  version?: string;
}

/** Installs and binds a package that came from `reference`. The registry has these artifacts by tag. */
async function createRegistryKernel(
  { reference = `${REPOSITORY}:0.1.0`, version = "0.1.0" }: { reference?: string | null; version?: string },
  artifacts: Record<string, Artifact>,
): Promise<{ fixture: TestKernel; requests: string[] }> {
  const fixture = await createTestKernel({ host: { require_signature: [] } });
  const { importer } = fixture;
  const requests: string[] = [];
  const load = importer.import.bind(importer);
  importer.import = async (source) => ({
    ...(await load(source)),
    origin: "oci",
    oci: { reference, manifest_digest: INSTALLED },
  });
  importer.listTags = async (text) => {
    requests.push(`tags of ${text}`);
    return Object.keys(artifacts);
  };
  importer.readArtifact = async (text) => {
    requests.push(text);
    const artifact = artifacts[text.slice(REPOSITORY.length + 1)]!;
    const { digest = `sha256:${"cd".repeat(32)}`, package_id = "acme/notes" } = artifact;
    const stated = { package_id, version: artifact.version ?? null };
    return {
      manifest_digest: digest,
      ...(stated.version === null ? { ...stated, package_id: null } : stated),
    };
  };
  await fixture.bind({ ...manifest([toolExport("greet")], { package_id: "acme/notes" }), version });
  return { fixture, requests };
}

async function readRow(fixture: TestKernel, caller = admin) {
  const [row] = await fixture.kernel.packages.listOutdated(caller);
  return row!;
}

verifies(
  "upgrade.moves",
  "finds the highest version tag in the repository of the installed one",
  async () => {
    const { fixture, requests } = await createRegistryKernel(
      {},
      {
        "0.1.0": { version: "0.1.0", digest: INSTALLED },
        "0.9.0": { version: "0.9.0" },
        "0.10.0": { version: "0.10.0" },
        "0.11.0-rc.1": { version: "0.11.0-rc.1" },
        latest: { version: "0.10.0" },
        "1": { version: "1.0.0" },
      },
    );
    expect(await readRow(fixture)).toMatchObject({
      in_use: ["0.1.0"],
      newest_available: "0.10.0",
      source: `${REPOSITORY}:0.10.0`,
      outdated: true,
      note: null,
    });
    expect(requests).toEqual([`tags of ${REPOSITORY}:0.1.0`, `${REPOSITORY}:0.10.0`]);
  },
);

verifies("upgrade.moves", "offers pre-releases only if the package in use is a pre-release", async () => {
  const tags = {
    "0.1.0-rc.1": { version: "0.1.0-rc.1", digest: INSTALLED },
    "0.2.0-rc.1": { version: "0.2.0-rc.1" },
  };
  const reference = `${REPOSITORY}:0.1.0-rc.1`;
  const { fixture } = await createRegistryKernel({ reference, version: "0.1.0-rc.1" }, tags);
  expect(await readRow(fixture)).toMatchObject({ newest_available: "0.2.0-rc.1", outdated: true });
  const stable = { ...tags, "0.1.0": { version: "0.1.0", digest: INSTALLED } };
  const { fixture: other } = await createRegistryKernel({}, stable);
  expect(await readRow(other)).toMatchObject({ newest_available: "0.1.0", outdated: false, note: null });
});

test("finds the versions of a package that was installed by its digest, and keeps the form of the tags", async () => {
  const tags = { "0.2.0": { version: "0.2.0" }, "v0.2.0": { version: "0.2.0" } };
  const pinned = await createRegistryKernel({ reference: `${REPOSITORY}@${INSTALLED}` }, tags);
  expect(await readRow(pinned.fixture)).toMatchObject({ source: `${REPOSITORY}:0.2.0`, outdated: true });
  const prefixed = await createRegistryKernel({ reference: `${REPOSITORY}:v0.1.0` }, tags);
  expect(await readRow(prefixed.fixture)).toMatchObject({ source: `${REPOSITORY}:v0.2.0`, outdated: true });
});

verifies("upgrade.moves", "reads a tag that is not a version again, without the list of tags", async () => {
  const reference = `${REPOSITORY}:stable`;
  const artifacts: Record<string, Artifact> = { stable: { version: "0.1.0", digest: INSTALLED } };
  const { fixture, requests } = await createRegistryKernel({ reference }, artifacts);
  expect(await readRow(fixture)).toMatchObject({ newest_available: "0.1.0", outdated: false, note: null });
  artifacts.stable = { version: "0.2.0" };
  expect(await readRow(fixture)).toMatchObject({
    newest_available: "0.2.0",
    source: reference,
    outdated: true,
  });
  expect(requests).toEqual([reference, reference]);
});

verifies(
  "upgrade.moves",
  "reads the version in the files of an artifact that does not state it",
  async () => {
    const { fixture } = await createRegistryKernel({}, { "0.2.0": {} });
    const inspected: unknown[] = [];
    fixture.importer.inspect = async (source) => {
      inspected.push(source);
      const offered = { name: "", package_id: "acme/notes", version: "0.2.0" };
      const packages = [{ ...offered, secret_slots: [], exports: [], binds: true }];
      return { kind: "package", packages, plugins: [], left_out: [], notes: [] };
    };
    expect(await readRow(fixture)).toMatchObject({ newest_available: "0.2.0", outdated: true });
    expect(inspected).toEqual([{ kind: "oci", reference: `${REPOSITORY}:0.2.0` }]);
  },
);

const UNKNOWN: [
  title: string,
  reference: string | null,
  artifacts: Record<string, Artifact>,
  note: string,
][] = [
  ["an OCI image layout", null, {}, "An OCI image layout does not list"],
  ["a repository without versions", `${REPOSITORY}:0.1.0`, { latest: { version: "0.1.0" } }, "No tag of"],
  [
    "another package",
    `${REPOSITORY}:0.1.0`,
    { "0.2.0": { version: "0.2.0", package_id: "acme/other" } },
    "another package",
  ],
  [
    "an invalid version",
    `${REPOSITORY}:stable`,
    { stable: { version: "newest\u001b[2J" } },
    `${REPOSITORY}:stable does not state a valid version`,
  ],
  [
    "a tag with another version",
    `${REPOSITORY}:0.1.0`,
    { "9.0.0": { version: "0.1.0", digest: INSTALLED } },
    "contains the version 0.1.0",
  ],
  [
    "other content under the installed version",
    `${REPOSITORY}:0.1.0`,
    { "0.1.0": { version: "0.1.0" } },
    "other content under the version 0.1.0",
  ],
];

for (const [title, reference, artifacts, note] of UNKNOWN)
  verifies("upgrade.moves", `reports the newest version as unknown for ${title}`, async () => {
    const { fixture } = await createRegistryKernel({ reference }, artifacts);
    expect(await readRow(fixture)).toMatchObject({
      newest_available: null,
      source: null,
      outdated: false,
      note: expect.stringContaining(note),
    });
  });

verifies("upgrade.moves", "reports why a registry does not list its tags", async () => {
  const { fixture } = await createRegistryKernel({}, {});
  fixture.importer.listTags = async () => {
    throw new BackplaneError("registry.not_found", "r.test has no list of the tags of acme/notes.");
  };
  const reason = "r.test has no list of the tags of acme/notes.";
  expect(await readRow(fixture)).toMatchObject({ newest_available: null, note: reason });
});

verifies(
  "upgrade.moves",
  "sends no request to a registry for a caller who may not install from it",
  async () => {
    const { fixture, requests } = await createRegistryKernel({}, { "0.2.0": { version: "0.2.0" } });
    const operator = { ...admin, admin: false, actor: "key_1", role: "user" } as const;
    expect(await readRow(fixture, operator)).toMatchObject({
      newest_available: null,
      note: "Only an admin credential may install from a registry.",
    });
    expect(requests).toEqual([]);
  },
);
