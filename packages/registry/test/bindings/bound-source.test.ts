/** A binding stays with the source of its package, whatever other sources use the same package id. */
import { type Binding, findPackageSource, type Package } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { requireBoundSource } from "../../src/bindings/bound-source.ts";

const DIGEST = `sha256:${"0".repeat(64)}`;

function createPackage(origin: Package["origin"], source = "", more: Partial<Package> = {}): Package {
  const content = manifest([], { source, runtime: { protocol: "mcp.stdio", entrypoint: ["node", "a.js"] } });
  return { origin, manifest: content, version: "1.0.0", ...more } as Package;
}

const oci = (reference: string | null) => ({ oci: { reference, manifest_digest: DIGEST } });
const vai = (pack: Package): Package => ({ ...pack, manifest: manifest([toolExport("greet")]) });
const signed = (pack: Package, state: "verified" | "expired" | "unverified"): Package => ({
  ...pack,
  signature: { state, key_id: null, key_name: null, signed_at: null, reason: null },
});

test("names the source of a package without its version", () => {
  const sources: [Package, string | null][] = [
    [createPackage("npm", "npm:@acme/server@1.2.3; install scripts: a@1"), "npm:@acme/server"],
    [createPackage("npm", "npm:server@1.2.3"), "npm:server"],
    [createPackage("pypi", "pypi:server==1.2; built from source: server"), "pypi:server"],
    [createPackage("image", `image:mcp/time:latest@${DIGEST}`), "image:mcp/time"],
    [
      createPackage("image", `image:localhost:5000/acme/server@${DIGEST}`),
      "image:localhost:5000/acme/server",
    ],
    [
      createPackage("oci", "", oci("oci://registry.test:5000/acme/dev:1.0")),
      "oci:registry.test:5000/acme/dev",
    ],
    [createPackage("marketplace", "", oci(`oci://ghcr.test/acme/dev@${DIGEST}`)), "oci:ghcr.test/acme/dev"],
    [createPackage("oci", "", oci(null)), null],
    // The manifests of these packages are written by their authors.
    [createPackage("folder", "npm:@acme/server@1.2.3"), null],
    [createPackage("upload", `image:mcp/time@${DIGEST}`), null],
  ];
  for (const [pack, source] of sources) expect(findPackageSource(pack)).toBe(source);
});

verifies("sec.credential-destination", "accepts another version only from the same source", () => {
  const bound = { binding_id: "bind_1", package_id: "acme/server" } as Binding;
  const npm = createPackage("npm", "npm:@acme/server@1.0.0");
  const image = createPackage("image", `image:x.test/acme/server:1@${DIGEST}`);
  const other_image = createPackage("image", `image:y.test/acme/server:2@${DIGEST}`);
  const here = createPackage("oci", "", oci("oci://x.test/acme/dev:1"));
  const there = createPackage("oci", "", oci("oci://y.test/acme/dev:2"));
  const local_server = createPackage("upload");
  const local_plugin = vai(createPackage("folder"));
  const cases: [from: Package, to: Package, accepted: boolean][] = [
    [npm, createPackage("npm", "npm:@acme/server@2.0.0"), true],
    [npm, image, false],
    [image, createPackage("image", `image:x.test/acme/server:2@${DIGEST}`), true],
    [image, other_image, false],
    [image, local_server, false],
    [local_server, npm, false],
    [local_server, createPackage("folder"), true],
    [vai(here), vai(createPackage("marketplace", "", oci("oci://x.test/acme/dev:2"))), true],
    [vai(here), vai(there), false],
    [vai(here), npm, false],
    [local_plugin, vai(here), true],
    [vai(here), local_plugin, true],
    [signed(vai(here), "expired"), signed(vai(there), "verified"), true],
    [signed(vai(here), "verified"), signed(vai(there), "unverified"), false],
    [signed(vai(here), "unverified"), signed(vai(there), "verified"), false],
  ];
  for (const [index, [from, to, accepted]] of cases.entries()) {
    const check = () => requireBoundSource(bound, from, to);
    if (accepted) expect(check, `case ${index}`).not.toThrow();
    else expect(check, `case ${index}`).toThrow(expect.objectContaining({ code: "binding.conflict" }));
  }
  expect(() => requireBoundSource(bound, image, other_image)).toThrow(
    expect.objectContaining({
      message: expect.stringContaining("is bound from image:x.test/acme/server (bind_1)"),
      fix: expect.stringContaining("backplane binding remove bind_1"),
    }),
  );
});

async function installImage(fixture: TestKernel, repository: string, version: string): Promise<void> {
  const content = manifest([], {
    package_id: "acme/server",
    version,
    source: `image:${repository}@${DIGEST}`,
    runtime: { protocol: "mcp.stdio", entrypoint: ["/server"], permissions: { secret_slots: ["token"] } },
  });
  await fixture.kernel.packages.install(admin, fixture.importer.add(content, {}, "", { origin: "image" }));
}

const bindServer = (
  fixture: TestKernel,
  package_version: string,
  more: { org_wide?: boolean; secrets?: Record<string, string>; rollout?: { traffic_percent: number } } = {},
  caller: Caller = admin,
) =>
  fixture.kernel.bindings.create(caller, {
    package_id: "acme/server",
    package_version,
    export_id: "*",
    ...more,
  });

verifies(
  "sec.credential-destination",
  "does not move a binding to an image from another registry",
  async () => {
    const fixture = await createTestKernel();
    await fixture.kernel.secrets.put(admin, "token", "value-of-the-token");
    await installImage(fixture, "x.test/acme/server", "1.0.0");
    await installImage(fixture, "y.test/other/acme/server", "2.0.0");
    await installImage(fixture, "x.test/acme/server", "3.0.0");
    const bound = await bindServer(fixture, "1.0.0", { secrets: { token: "secret://org_local/token" } });
    const refused = { code: "binding.conflict", details: { from: "image:x.test/acme/server" } };
    const { bindings } = fixture.kernel;
    const to_other = { package_id: "acme/server", package_version: "2.0.0" };
    await expect(bindServer(fixture, "2.0.0")).rejects.toMatchObject(refused);
    await expect(bindServer(fixture, "2.0.0", { rollout: { traffic_percent: 10 } })).rejects.toMatchObject(
      refused,
    );
    await expect(bindings.upgrade(admin, to_other)).rejects.toMatchObject(refused);
    await expect(bindings.upgrade(admin, { ...to_other, percent: 10 })).rejects.toMatchObject(refused);
    await expect(
      bindings.patch(admin, bound.binding_id, { package_version: "2.0.0" }, undefined),
    ).rejects.toMatchObject(refused);
    expect(await bindings.get(admin, bound.binding_id)).toMatchObject({
      package_version: "1.0.0",
      generation: 1,
    });
    expect(await bindServer(fixture, "3.0.0")).toMatchObject({ binding_id: bound.binding_id });
    // A new binding has none of the secrets.
    await bindings.remove(admin, bound.binding_id);
    expect(await bindServer(fixture, "2.0.0")).toMatchObject({ generation: 1, secrets: {} });
  },
);

test("lets only an admin bind a package from another source in a project when the org has a binding", async () => {
  const fixture = await createTestKernel();
  await installImage(fixture, "x.test/acme/server", "1.0.0");
  await installImage(fixture, "y.test/other/acme/server", "2.0.0");
  await bindServer(fixture, "1.0.0", { org_wide: true });
  await expect(bindServer(fixture, "2.0.0", {}, user)).rejects.toMatchObject({ code: "binding.conflict" });
  expect(await bindServer(fixture, "1.0.0", {}, user)).toMatchObject({ package_version: "1.0.0" });
  const other_project: Caller = { ...admin, scope: { ...admin.scope, project_id: "proj_other" } };
  expect(await bindServer(fixture, "2.0.0", {}, other_project)).toMatchObject({ package_version: "2.0.0" });
});
