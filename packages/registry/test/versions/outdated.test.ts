/** The newest versions of packages, installed and at their sources. */
import { BackplaneError, type SourceInspection } from "@backplane/contract";
import type { ImportedPackage, InstallationSource } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

const TOOL = [toolExport("greet")];

/** Installs and binds packages of these origins. `newest` returns the newest version that a source offers. */
async function createInstalledKernel(
  origins: Record<string, Partial<ImportedPackage>>,
  newest: (source: InstallationSource) => Partial<SourceInspection["packages"][number]>,
): Promise<{ fixture: TestKernel; queried: InstallationSource[] }> {
  const fixture = await createTestKernel({ host: { require_signature: [] } });
  const queried: InstallationSource[] = [];
  const { importer } = fixture;
  const load = importer.import.bind(importer);
  importer.import = async (source) => {
    const imported = await load(source);
    return { ...imported, ...origins[imported.manifest.package_id] };
  };
  importer.inspect = async (source) => {
    queried.push(source);
    const inspected = { name: "", secret_slots: [], exports: [], binds: true, ...newest(source) };
    const packages = [inspected as SourceInspection["packages"][number]];
    return { kind: "package", packages, plugins: [], left_out: [], notes: [] };
  };
  for (const package_id of Object.keys(origins))
    await fixture.bind(manifest(TOOL, { package_id, name: `@acme/${package_id.slice(5)}` }));
  return { fixture, queried };
}

const readOutdated = async (fixture: TestKernel) =>
  Object.fromEntries(
    (await fixture.kernel.packages.listOutdated(admin)).map(({ package_id, ...item }) => [package_id, item]),
  );

test("reports the provenance of the newest available version", async () => {
  const provenance = {
    state: "none" as const,
    reason: null,
    build: null,
    logged_at: null,
    checked_at: "2026-05-01T00:00:00.000Z",
    trust_root: null,
  };
  const { fixture } = await createInstalledKernel({ "acme/files": { origin: "npm", provenance } }, () => ({
    package_id: "acme/files",
    version: "0.10.0",
    provenance,
  }));
  expect((await readOutdated(fixture))["acme/files"]).toMatchObject({ provenance });
  const { items } = await fixture.kernel.packages.list(admin, { limit: 10 });
  expect(items.map((item) => item.provenance)).toEqual([provenance]);
});

test("queries the source of each package for its newest version", async () => {
  const digest = `sha256:${"ab".repeat(32)}`;
  const { fixture, queried } = await createInstalledKernel(
    {
      "acme/files": { origin: "npm" },
      "acme/notes": {
        origin: "oci",
        oci: { reference: "oci://r.test/acme/notes:1", manifest_digest: digest },
      },
      "acme/upload": { origin: "upload" },
    },
    () => ({ package_id: "acme/files", version: "0.10.0" }),
  );
  fixture.importer.readArtifact = async () => ({
    manifest_digest: digest,
    package_id: "acme/notes",
    version: "0.1.0",
  });
  expect(await readOutdated(fixture)).toEqual({
    "acme/files": {
      origin: "npm",
      source: "npm:@acme/files@0.10.0",
      in_use: ["0.1.0"],
      newest_installed: "0.1.0",
      newest_available: "0.10.0",
      outdated: true,
      note: null,
    },
    "acme/notes": {
      origin: "oci",
      source: "oci://r.test/acme/notes:1",
      in_use: ["0.1.0"],
      newest_installed: "0.1.0",
      newest_available: "0.1.0",
      outdated: false,
      note: null,
    },
    "acme/upload": {
      origin: "upload",
      source: null,
      in_use: ["0.1.0"],
      newest_installed: "0.1.0",
      newest_available: null,
      outdated: false,
      note: expect.stringContaining("An archive does not list the available versions."),
    },
  });
  expect(queried.map(({ kind }) => kind)).toEqual(["npm"]);
});

test("queries the Python index, and recognizes newer versions that semantic versioning cannot order", async () => {
  const { fixture, queried } = await createInstalledKernel({ "acme/py": { origin: "pypi" } }, () => newest);
  let newest = { package_id: "acme/py", version: "0.1.0+post2", source: "pypi:py==0.1.post2" };
  const find = async () => (await readOutdated(fixture))["acme/py"];
  expect(await find()).toMatchObject({
    source: "pypi:py==0.1.post2",
    newest_available: "0.1.0+post2",
    outdated: true,
    note: null,
  });
  expect(queried).toEqual([{ kind: "pypi", spec: "@acme/py", args: [], secret_slots: [] }]);
  newest = { ...newest, version: "0.1.0" };
  expect(await find()).toMatchObject({ outdated: false });
  newest = { ...newest, version: "0.0.9" };
  expect(await find()).toMatchObject({ outdated: false });
});

test("compares versions without the build metadata that lists packages built from source", async () => {
  const { fixture } = await createInstalledKernel({}, () => ({ package_id: "acme/py", version: "1.2.0" }));
  const load = fixture.importer.import.bind(fixture.importer);
  fixture.importer.import = async (source) => ({ ...(await load(source)), origin: "pypi" });
  await fixture.bind({ ...manifest(TOOL, { package_id: "acme/py" }), version: "1.2.0+built.acme-part" });
  expect((await readOutdated(fixture))["acme/py"]).toMatchObject({ outdated: false });
});

test("explains why the versions of folders, images and linked workspaces are unknown", async () => {
  const { fixture, queried } = await createInstalledKernel(
    {
      "acme/folder": { origin: "folder" },
      "acme/image": { origin: "image" },
      "acme/linked": { origin: "workspace" },
    },
    () => ({}),
  );
  const report = await readOutdated(fixture);
  expect(Object.keys(report)).toEqual(["acme/folder", "acme/image", "acme/linked"]);
  for (const item of Object.values(report))
    expect(item).toMatchObject({
      newest_available: null,
      outdated: false,
      note: expect.stringContaining("does not list the available versions"),
    });
  expect(queried).toEqual([]);
});

test("reports an installed version that is newer than the one in use, even if its source is unreachable", async () => {
  const { fixture } = await createInstalledKernel({ "acme/files": { origin: "npm" } }, () => {
    throw new BackplaneError("package.invalid", "The registry is unreachable.");
  });
  const next = { ...manifest(TOOL, { package_id: "acme/files" }), version: "0.2.0" };
  await fixture.kernel.packages.install(admin, fixture.importer.add(next));
  const { "acme/files": item } = await readOutdated(fixture);
  expect(item).toMatchObject({
    in_use: ["0.1.0"],
    newest_installed: "0.2.0",
    newest_available: null,
    outdated: true,
    note: "The registry is unreachable.",
  });
  await expect(fixture.kernel.packages.listOutdated(guest)).rejects.toMatchObject({ code: "policy.denied" });
});
