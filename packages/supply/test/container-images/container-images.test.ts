/** Imports container images, valid and hostile, as packages from a scripted registry. */
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unwatchedOperation } from "@backplane/ports";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { IMAGE_LIMITS } from "../../src/container-images/image-limits.ts";
import { formatImageReference, parseImageReference } from "../../src/container-images/image-reference.ts";
import { pullImage } from "../../src/container-images/pull-image.ts";
import {
  createPackageImporter,
  createRegistryClient,
  openContentStore,
  openPackageImages,
  readManifest,
} from "../../src/index.ts";
import { type ImageContent, packLayer, putImage } from "../support/image-layers.ts";
import { createScriptedRegistry } from "../support/scripted-registry.ts";

const registry = createScriptedRegistry();
let root: string;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "backplane-container-images-"));
  await registry.start();
});
beforeEach(() => registry.reset());
afterAll(async () => {
  await registry.close();
  rmSync(root, { recursive: true, force: true });
});

const SERVER = [
  { name: "app/server", body: "#!/bin/sh\n", mode: 0o755 },
  { name: "usr/bin/env", body: "env", mode: 0o755 },
  { name: "bin", type: "symlink", linkname: "usr/bin" },
  { name: "dev/null", type: "character-device" },
] as const;

function createImporter() {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const host = { os: "linux", arch: "amd64" } as const;
  const registries = { addresses: null };
  const importer = createPackageImporter({ store, schemas, host, registries });
  return { store, importer, close: () => schemas.close() };
}

async function importImage(reference: string, args: string[] = []) {
  const { store, importer, close } = createImporter();
  try {
    const opened = await importer.open({ kind: "image", reference, args, secret_slots: ["api_key"] });
    const imported = await opened.import(opened.parts[0]!);
    return { ...imported, tree: await store.verifyTree(imported.digest), store };
  } finally {
    await close();
  }
}

async function publishImage(content: Partial<ImageContent> = {}, tag = "1.2") {
  const layers = [await packLayer(SERVER)];
  const config = {
    Entrypoint: ["server"],
    Cmd: ["--default"],
    Env: ["PATH=/app:/bin", "HOME=/root", "LEVEL=1", "BAD-NAME=x"],
    WorkingDir: "/work",
  };
  return putImage(registry, { layers, config, ...content }, tag);
}

verifies(
  "source.image",
  "packs the image for this platform by its digest, with its start command and its files",
  async () => {
    const matching = await publishImage({}, "own");
    const other = await publishImage({ architecture: "arm64" }, "other");
    registry.putManifest(
      {
        schemaVersion: 2,
        mediaType: "application/vnd.oci.image.index.v1+json",
        manifests: [other, matching],
      },
      "1.2",
    );
    const reference = `${registry.host}/acme/time:1.2`;
    const { manifest, origin, digest, tree, store } = await importImage(reference);
    const short = matching.digest.slice("sha256:".length, "sha256:".length + 12);
    expect(origin).toBe("image");
    expect(manifest).toMatchObject({
      package_id: "acme/time",
      version: `1.2.0+image.${short}`,
      source: `image:${reference}@${matching.digest}`,
      runtime: {
        protocol: "mcp.stdio",
        entrypoint: ["/app/server", "--default"],
        env: { PATH: "/app:/bin", LEVEL: "1" },
        image: { workdir: "/work" },
        os: ["linux"],
        arch: ["amd64"],
        permissions: { network: "egress", filesystem: "scratch", secret_slots: ["api_key"] },
      },
    });
    expect(manifest.runtime.env).not.toHaveProperty("HOME");
    expect(readdirSync(tree).sort()).toEqual(["image", "image.json"]);
    expect((await importImage(reference)).digest).toBe(digest);
    // Arguments replace the command, so this is another package, which does not conflict with the first.
    expect((await importImage(reference, ["--mine"])).manifest).toMatchObject({
      version: `1.2.0+image.${short}.args`,
      runtime: { entrypoint: ["/app/server"] },
    });

    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const images = openPackageImages({ store, dir: join(root, "images"), log });
    const image = await images.open(digest);
    const expanded = await image.expandRoot!();
    expect(readdirSync(expanded).sort()).toEqual(["app", "bin", "etc", "usr", "work"]);
    expect(readlinkSync(join(expanded, "bin"))).toBe("usr/bin");
    expect(readFileSync(join(expanded, "bin/env"), "utf8")).toBe("env");
    expect(statSync(join(expanded, "app/server")).mode & 0o7777).toBe(0o555);
    expect(lstatSync(join(expanded, "work")).mode & 0o777).toBe(0o755);
    expect(readdirSync(join(expanded, "etc")).sort()).toEqual(["group", "hosts", "passwd"]);
    await image.check();
    rmSync(join(expanded, "app/server"));
    await expect(image.check()).rejects.toMatchObject({ code: "package.corrupt" });
    image.release();
    await images.close();
  },
);

const REFUSED: [what: string, code: string, content: () => Promise<Partial<ImageContent>>][] = [
  [
    "an architecture other than that of the host",
    "package.platform",
    async () => ({ architecture: "s390x" }),
  ],
  [
    "a layer that its configuration does not describe",
    "package.digest_mismatch",
    async () => ({ diff_ids: [`sha256:${"0".repeat(64)}`] }),
  ],
  ["more layers than its configuration lists", "package.invalid", async () => ({ diff_ids: [] })],
  ["a program that does not exist", "package.invalid", async () => ({ config: { Entrypoint: ["nowhere"] } })],
  ["no program", "package.invalid", async () => ({ config: {} })],
  [
    "a hostile layer",
    "package.unsafe",
    async () => ({
      layers: [await packLayer(SERVER), await packLayer([{ name: "disk", type: "block-device" }])],
    }),
  ],
  [
    "a folder whose name is reserved for the sandbox",
    "package.unsafe",
    async () => ({ layers: [await packLayer([...SERVER, { name: "sandbox/init", body: "" }])] }),
  ],
];

const TOKEN = `ghp_${"a1B2".repeat(9)}`;
REFUSED.push(
  [
    "a credential file among the application's own files",
    "package.credential_file",
    async () => ({ layers: [await packLayer([...SERVER, { name: "app/.env", body: "A=1" }])] }),
  ],
  [
    "a credential in its environment variables",
    "package.credential_file",
    async () => ({ config: { Entrypoint: ["/app/server"], Env: [`KEY=${TOKEN}`] } }),
  ],
  [
    "more top-level entries than the sandbox can mount",
    "package.unsafe",
    async () => {
      const top = Array.from({ length: 300 }, (_, index) => ({ name: `top-${index}`, body: "" }));
      return { layers: [await packLayer([...SERVER, ...top])] };
    },
  ],
  [
    "an argument that is too long for a manifest",
    "package.invalid",
    async () => ({ config: { Entrypoint: ["/app/server", "x".repeat(100_000)] } }),
  ],
);

verifies(
  "pkg.no-secrets",
  "accepts credentials in files of the base image and of installed libraries",
  async () => {
    const public_files = ["usr/share/doc/key", "app/node_modules/x/key", "app/lib/site-packages/x/key"];
    const layers = [await packLayer([...SERVER, ...public_files.map((name) => ({ name, body: TOKEN }))])];
    await publishImage({ layers });
    expect((await importImage(`${registry.host}/acme/time:1.2`)).origin).toBe("image");
  },
);

for (const [label, code, content] of REFUSED) {
  verifies("source.image", `refuses an image with ${label} and leaves no files`, async () => {
    await publishImage(await content());
    await expect(importImage(`${registry.host}/acme/time:1.2`)).rejects.toMatchObject({ code });
    expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  });
}

verifies("source.image", "limits the time to pull a whole image", async () => {
  await publishImage();
  registry.intercept = (request) => request.url?.includes("/blobs/") === true;
  const client = createRegistryClient({ credentials: async () => null, addresses: null });
  const folder = mkdtempSync(join(root, "slow-"));
  const reference = parseImageReference(`${registry.host}/acme/time:1.2`);
  const limits = { ...IMAGE_LIMITS, pull_ms: 200 };
  const host = { os: "linux", arch: "amd64" } as const;
  await expect(
    pullImage(client, reference, host, folder, unwatchedOperation(), limits),
  ).rejects.toMatchObject({
    code: "registry.unreachable",
    message: expect.stringContaining("pulling the image took too long"),
  });
  client.close();
});

verifies("source.image", "refuses a layer with changed bytes and leaves no files", async () => {
  await publishImage();
  for (const [digest, bytes] of registry.blobs) {
    const changed = Buffer.from(bytes);
    changed[changed.length - 1]! ^= 1;
    registry.blobs.set(digest, changed);
  }
  await expect(importImage(`${registry.host}/acme/time:1.2`)).rejects.toMatchObject({
    code: "package.digest_mismatch",
  });
  expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
});

test.each([
  ["mcp/time", "registry-1.docker.io", "mcp/time", "latest", "mcp/time:latest"],
  ["ubuntu:24.04", "registry-1.docker.io", "library/ubuntu", "24.04", "ubuntu:24.04"],
  ["docker.io/mcp/time:1", "registry-1.docker.io", "mcp/time", "1", "mcp/time:1"],
  ["ghcr.io/acme/a/b:v1", "ghcr.io", "acme/a/b", "v1", "ghcr.io/acme/a/b:v1"],
  ["localhost:5000/x", "localhost:5000", "x", "latest", "localhost:5000/x:latest"],
])("parses the image reference %s", (text, host, repository, tag, shown) => {
  const reference = parseImageReference(text);
  expect(reference).toEqual({ registry: host, repository, tag, digest: null });
  expect(formatImageReference(reference)).toBe(shown);
});

test.each(["", "UPPER/case", "a b", "x@sha256:1", "-v", "../x"])("refuses the image name %j", (text) => {
  expect(() => parseImageReference(text)).toThrow("is not the name of a container image");
});

test("refuses runtime.image in a manifest that the gateway did not write", () => {
  const manifest = [
    'api_version = "vai.plugin.v1"',
    'package_id = "acme/x"',
    'version = "1.0.0"',
    'name = "x"',
    "[runtime]",
    'protocol = "mcp.stdio"',
    'entrypoint = ["node", "./x.js"]',
    'image = { workdir = "/" }',
  ].join("\n");
  expect(() => readManifest(manifest)).toThrow("runtime.image is set only by the gateway");
});

test("notes that the user of an image is not used, unless it is root", async () => {
  const importNotes = async (User: string, tag: string) => {
    await publishImage({ config: { Entrypoint: ["server"], Env: ["PATH=/app"], User } }, tag);
    return (await importImage(`${registry.host}/acme/user:${tag}`)).notes;
  };
  expect(await importNotes("node:node", "named")).toEqual([
    expect.stringMatching(/acme\/user:named sets the user node:node, which is not used:/),
  ]);
  expect(await importNotes("1000", "id")).toHaveLength(1);
  for (const user of ["", "root", "0", "0:0", "root:root"])
    expect(await importNotes(user, "root")).toEqual([]);
});
