/** Container images as packages: layers are applied in memory, and every hostile one is refused without a trace. */
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { applyLayer, type LayerSpool } from "../src/container-images/apply-layer.ts";
import { formatImageReference, parseImageReference } from "../src/container-images/image-reference.ts";
import { ImageTree } from "../src/container-images/image-tree.ts";
import { createPackageImporter, openContentStore, openPackageImages, readManifest } from "../src/index.ts";
import { type ImageContent, type LayerEntry, layerOf, putImage } from "./image-layers.ts";
import { createScriptedRegistry } from "./scripted-registry.ts";

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

const LIMITS = { entries: 1_000, unpacked_bytes: 4 * 1024 * 1024 };

/** The files of an image: the target of a link after `->`, the content of a file, null for a folder. */
async function apply(...layers: (readonly LayerEntry[] | Buffer)[]): Promise<Record<string, string | null>> {
  const tree = new ImageTree();
  const handle = await open(join(mkdtempSync(join(root, "spool-")), "spool"), "wx+");
  const spool: LayerSpool = { handle, bytes: 0, entries: 0, unpacked: 0 };
  try {
    for (const [index, layer] of layers.entries()) {
      const bytes = Buffer.isBuffer(layer) ? layer : await layerOf(layer);
      await applyLayer(tree, index, oneByOne(bytes), spool, LIMITS);
    }
    const found: Record<string, string | null> = {};
    for (const { path, node } of tree.entries()) {
      if (node.kind === "folder") found[path] = null;
      else if (node.kind === "link") found[path] = `-> ${node.target}`;
      else {
        const { offset, size } = node.content;
        const { buffer } = await handle.read(Buffer.alloc(size), 0, size, offset);
        found[path] = `${buffer.toString()}${node.executable ? " (program)" : ""}`;
      }
    }
    return found;
  } finally {
    await handle.close();
  }
}

async function* oneByOne(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 4_096) yield bytes.subarray(at, at + 4_096);
}

test("merges layers with whiteouts, opaque folders, hard links and a compression", async () => {
  const lower = [
    { name: "./etc/a", body: "a" },
    { name: "etc/b", body: "b" },
    { name: "opt/old/x", body: "x" },
    { name: "opt/old/y", body: "y" },
    { name: "gone/deep/z", body: "z" },
    { name: "bin/tool", body: "tool", mode: 0o4755 },
    { name: "bin/again", type: "link", linkname: "bin/tool" },
    { name: "lib", type: "symlink", linkname: "usr/lib" },
  ] as const;
  const upper = await layerOf([
    { name: "etc/.wh.a", body: "" },
    { name: "opt/old/new", body: "new" },
    { name: "opt/old/.wh..wh..opq", body: "" },
    { name: ".wh.gone", body: "" },
    { name: "etc/.wh..wh.aufs", body: "" },
    { name: "lib/through-a-link", body: "inside" },
  ]);
  expect(await apply(lower, zstdCompressSync(upper))).toEqual({
    bin: null,
    "bin/again": "tool (program)",
    "bin/tool": "tool (program)",
    etc: null,
    "etc/b": "b",
    lib: "-> usr/lib",
    opt: null,
    "opt/old": null,
    "opt/old/new": "new",
    usr: null,
    "usr/lib": null,
    "usr/lib/through-a-link": "inside",
  });
});

verifies("source.image", "follows links of a layer only inside of the image", async () => {
  const links = [
    { name: "a", type: "symlink", linkname: "/" },
    { name: "b", type: "symlink", linkname: "../../../../tmp" },
    { name: "c", type: "symlink", linkname: "b/../../.." },
    { name: "a/tmp/one", body: "1" },
    { name: "b/two", body: "2" },
    { name: "c/three", body: "3" },
  ] as const;
  expect(await apply(links)).toMatchObject({ "tmp/one": "1", "tmp/two": "2", three: "3" });
  expect(existsSync("/tmp/two")).toBe(false);
  // A whiteout through a link removes a file of the image, not of the host.
  expect(await apply(links, [{ name: "b/.wh.two", body: "" }])).not.toHaveProperty("tmp/two");
});

const HOSTILE: [what: string, rule: string, entries: readonly LayerEntry[]][] = [
  ["a path with ..", "path-traversal", [{ name: "a/../../b", body: "" }]],
  ["a device", "device", [{ name: "disk", type: "block-device" }]],
  ["a device beside /dev", "device", [{ name: "devices/null", type: "character-device" }]],
  ["a named pipe", "device", [{ name: "pipe", type: "fifo" }]],
  ["a whiteout without a name", "whiteout", [{ name: "etc/.wh.", body: "" }]],
  ["a whiteout of the parent", "whiteout", [{ name: "etc/.wh...", body: "" }]],
  ["a hard link to nothing", "hard-link", [{ name: "x", type: "link", linkname: "etc/shadow" }]],
  [
    "a hard link to a folder",
    "hard-link",
    [
      { name: "d", type: "directory" },
      { name: "x", type: "link", linkname: "d" },
    ],
  ],
  [
    "a file below a file",
    "file-and-folder",
    [
      { name: "x", body: "" },
      { name: "x/y", body: "" },
    ],
  ],
  [
    "links in a circle",
    "file-and-folder",
    [
      { name: "x", type: "symlink", linkname: "y" },
      { name: "y", type: "symlink", linkname: "x" },
      { name: "x/z", body: "" },
    ],
  ],
  ["a line break in a name", "control-character", [{ name: "a\nb", body: "" }]],
  ["more bytes than the limit", "too-large", [{ name: "zeros", body: Buffer.alloc(5 * 1024 * 1024) }]],
  [
    "more entries than the limit",
    "too-many-entries",
    Array.from({ length: 1_001 }, (_, index) => ({ name: `f${index}`, body: "" })),
  ],
];

verifies("source.image", "refuses hostile layers", async () => {
  for (const [label, rule, entries] of HOSTILE)
    await expect(apply(entries), label).rejects.toMatchObject({ code: "package.unsafe", details: { rule } });
  await expect(apply(Buffer.from("not a tar at all".repeat(100)))).rejects.toMatchObject({
    details: { rule: "garbage" },
  });
});

const SERVER = [
  { name: "app/server", body: "#!/bin/sh\n", mode: 0o755 },
  { name: "usr/bin/env", body: "env", mode: 0o755 },
  { name: "bin", type: "symlink", linkname: "usr/bin" },
  { name: "dev/null", type: "character-device" },
] as const;

function openImporter() {
  const store = openContentStore(join(root, "blobs"));
  const schemas = shareSchemas();
  const host = { os: "linux", arch: "amd64" } as const;
  const registries = { addresses: null };
  const importer = createPackageImporter({ store, schemas, host, registries });
  return { store, importer, close: () => schemas.close() };
}

async function importImage(reference: string, args: string[] = []) {
  const { store, importer, close } = openImporter();
  try {
    const opened = await importer.open({ kind: "image", reference, args, secret_slots: ["api_key"] });
    const imported = await opened.import(opened.parts[0]!);
    return { ...imported, tree: await store.verified(imported.digest), store };
  } finally {
    await close();
  }
}

async function put(content: Partial<ImageContent> = {}, tag = "1.2") {
  const layers = [await layerOf(SERVER)];
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
  "packs the image of this platform by its digest, with its start and its files",
  async () => {
    const own = await put({}, "own");
    const other = await put({ architecture: "arm64" }, "other");
    registry.putManifest(
      { schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [other, own] },
      "1.2",
    );
    const reference = `${registry.host}/acme/time:1.2`;
    const { manifest, origin, digest, tree, store } = await importImage(reference);
    const short = own.digest.slice("sha256:".length, "sha256:".length + 12);
    expect(origin).toBe("image");
    expect(manifest).toMatchObject({
      package_id: "acme/time",
      version: `1.2.0+image.${short}`,
      source: `image:${reference}@${own.digest}`,
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
    expect((await importImage(reference, ["--mine"])).manifest.runtime.entrypoint).toEqual(["/app/server"]);

    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const images = openPackageImages({ store, dir: join(root, "images"), log });
    const image = await images.open(digest);
    const expanded = await image.root!();
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
  ["another platform", "package.platform", async () => ({ architecture: "s390x" })],
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
      layers: [await layerOf(SERVER), await layerOf([{ name: "disk", type: "block-device" }])],
    }),
  ],
  [
    "a folder of the sandbox",
    "package.unsafe",
    async () => ({ layers: [await layerOf([...SERVER, { name: "sandbox/init", body: "" }])] }),
  ],
];

for (const [label, code, content] of REFUSED) {
  verifies("source.image", `refuses an image with ${label} and leaves no files`, async () => {
    await put(await content());
    await expect(importImage(`${registry.host}/acme/time:1.2`)).rejects.toMatchObject({ code });
    expect(readdirSync(join(root, "blobs", "tmp"))).toEqual([]);
  });
}

verifies("source.image", "refuses a layer with changed bytes and leaves no files", async () => {
  await put();
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
])("reads the image %s", (text, host, repository, tag, shown) => {
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
