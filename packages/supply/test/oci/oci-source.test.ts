/** Imports packages, honest and hostile, from a registry and from image layouts. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { InstallationSource, OpenOptions, PackageImporter } from "@backplane/ports";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { shareSchemas } from "@backplane/test-kit/shared-schemas";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  createPackageImporter,
  openContentStore,
  type PackedLayout,
  packLayout,
  tarLayout,
} from "../../src/index.ts";
import { HELLO, MANIFEST, writeFolder } from "../support/plugin-folder.ts";
import { sha256 } from "../support/scripted-registry.ts";
import { tar } from "../support/tar-bytes.ts";
import { LIMITS, useRegistries } from "./use-registries.ts";

const { registry } = useRegistries();
const base = createMemoryFolder("backplane-oci-");
const schemas = shareSchemas();
const signature = { format: "vai.signature.v1" };
let count = 0;
let dir: string;
let layout: string;
let packed: PackedLayout;
let importer: PackageImporter;

afterAll(async () => {
  await schemas.close();
  rmSync(base, { recursive: true, force: true });
});

beforeEach(async () => {
  dir = join(base, String(count++));
  mkdirSync(dir);
  await publish(HELLO);
  importer = createPackageImporter({
    store: openContentStore(join(dir, "blobs")),
    schemas,
    host: { os: "linux", arch: "amd64" },
    registries: { addresses: null, limits: LIMITS },
  });
});

/** Packs the files and puts everything into the registry, tagged 0.1.0. */
async function publish(files: Record<string, string>): Promise<void> {
  layout = join(dir, `layout-${readdirSync(dir).length}`);
  packed = await packLayout(writeFolder(`${layout}-files`, files), layout, [signature]);
  registry.reset();
  for (const name of readdirSync(join(layout, "blobs/sha256"))) {
    const bytes = readFileSync(join(layout, "blobs/sha256", name));
    const is_manifest = bytes.toString().startsWith('{"schemaVersion"');
    (is_manifest ? registry.manifests : registry.blobs).set(`sha256:${name}`, bytes);
  }
  registry.manifests.set("0.1.0", registry.manifests.get(packed.manifest_digest)!);
}

const reference = (name = "acme/hello:0.1.0") => `oci://${registry.host}/${name}`;

async function install(source: InstallationSource, options: OpenOptions = {}) {
  const opened = await importer.open(source, { only: "package", ...options });
  try {
    return await opened.import(opened.parts[0]!);
  } finally {
    await opened.end();
  }
}

const fromRegistry = (options?: OpenOptions) => install({ kind: "oci", reference: reference() }, options);

async function catchRefusal(
  work: Promise<unknown>,
): Promise<{ code?: string; message: string; details?: object }> {
  const error = await work.then(
    () => ({ message: "it was installed" }),
    (thrown: unknown) => thrown as { code?: string; message: string; details?: object },
  );
  expect(["sha256", "tmp"].map((name) => readdirSync(join(dir, "blobs", name)))).toEqual([[], []]);
  return error;
}

interface StoredManifest {
  config: object;
  layers: object[];
  annotations: object;
}

/** Applies the change to the manifest of the tag. */
function changeManifest(change: (manifest: StoredManifest) => object): void {
  const manifest = JSON.parse(registry.manifests.get("0.1.0")!.toString()) as StoredManifest;
  registry.putManifest(change(manifest), "0.1.0");
}

verifies("pkg.oci", "packs the same files to the same bytes", async () => {
  const again = join(dir, "again");
  await packLayout(`${layout}-files`, again, [signature]);
  const listOf = (root: string) => readdirSync(join(root, "blobs/sha256")).sort();
  expect(listOf(again)).toEqual(listOf(layout));
  expect(readFileSync(join(again, "index.json"))).toEqual(readFileSync(join(layout, "index.json")));
});

verifies(
  "pkg.oci",
  "installs the same package from a registry, by tag and by digest, as from a folder",
  async () => {
    const claims: object[] = [];
    const imported = await fromRegistry({ acceptArtifact: async (claim) => void claims.push(claim) });
    expect(imported).toMatchObject({
      digest: packed.digest,
      origin: "oci",
      oci: { reference: reference(), manifest_digest: packed.manifest_digest },
    });
    expect(claims).toEqual([{ digest: packed.digest, signatures: [signature] }]);
    const pinned = reference(`acme/hello@${packed.manifest_digest}`);
    expect((await install({ kind: "oci", reference: pinned })).digest).toBe(packed.digest);
    const folder = await install({ kind: "folder", path: `${layout}-files` });
    expect(folder.digest).toBe(packed.digest);
  },
);

verifies("pkg.oci", "installs from an image layout, as a folder and as a tar", async () => {
  const chunks: Buffer[] = [];
  const { Writable } = await import("node:stream");
  await tarLayout(
    layout,
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        chunks.push(chunk);
        done();
      },
    }),
  );
  const archive = Buffer.concat(chunks);
  const bytes = (async function* () {
    yield archive;
  })();
  const from_tar = await install({ kind: "archive", bytes });
  const from_folder = await install({ kind: "folder", path: layout });
  expect([from_tar.digest, from_folder.digest]).toEqual([packed.digest, packed.digest]);
  expect(from_tar.oci).toEqual({ reference: null, manifest_digest: packed.manifest_digest });
  expect(from_tar.origin).toBe("oci");
});

verifies("pkg.oci", "fetches no files of an artifact that is not accepted", async () => {
  const accept = async () => {
    throw Object.assign(new Error("unsigned"), { code: "policy.denied" });
  };
  expect((await catchRefusal(fromRegistry({ acceptArtifact: accept }))).code).toBe("policy.denied");
  const layer = JSON.parse(registry.manifests.get("0.1.0")!.toString()).layers[0].digest as string;
  expect(registry.requests.filter(({ path }) => path.includes(layer))).toEqual([]);
});

verifies("pkg.oci", "reads the tags and the version of a package without its files", async () => {
  expect(await importer.listTags(reference())).toEqual(["0.1.0"]);
  const stated = {
    manifest_digest: packed.manifest_digest,
    package_id: "acme/hello",
    version: "0.1.0",
  };
  expect(await importer.readArtifact(reference())).toEqual(stated);
  expect(registry.requests.filter(({ path }) => path.includes("/blobs/"))).toEqual([]);
  changeManifest((manifest) => ({ ...manifest, annotations: {} }));
  expect(await importer.readArtifact(reference())).toMatchObject({ package_id: null, version: null });
  changeManifest((manifest) => ({ ...manifest, artifactType: "a/b" }));
  await expect(importer.readArtifact(reference())).rejects.toMatchObject({ code: "package.source_invalid" });
});

verifies("pkg.oci", "compares the source in the manifest with the reference", async () => {
  const other = MANIFEST.replace("[runtime]", 'source = "oci://ghcr.io/acme/hello:0.1.0"\n\n[runtime]');
  await publish({ ...HELLO, "vai-plugin.toml": other });
  const error = await catchRefusal(fromRegistry());
  expect(error.code).toBe("package.source_mismatch");
  expect(error.message).toContain("oci://ghcr.io/acme/hello:0.1.0");
  expect((await fromRegistry({ accept_source: true })).digest).toBe(packed.digest);
});

verifies("pkg.oci", "refuses one changed byte in any part and reports both digests", async () => {
  const pinned = { kind: "oci", reference: reference(`acme/hello@${packed.manifest_digest}`) } as const;
  // The config of a signature is always {} and never read.
  const parts = [...registry.blobs, ...registry.manifests].filter(
    ([name, bytes]) => name.startsWith("sha256:") && bytes.toString() !== "{}",
  );
  expect(parts).toHaveLength(5);
  for (const [name, bytes] of parts) {
    const changed = Buffer.from(bytes);
    changed[Math.floor(bytes.length / 2)]! ^= 1;
    const stored = registry.blobs.has(name) ? registry.blobs : registry.manifests;
    stored.set(name, changed);
    const error = await catchRefusal(install(pinned));
    expect({ name, code: error.code, details: error.details }).toMatchObject({
      code: "package.digest_mismatch",
      details: { expected: name, actual: sha256(changed) },
    });
    stored.set(name, bytes);
  }
});

verifies("pkg.oci", "refuses one changed byte in any file of a layout", async () => {
  for (const file of readdirSync(join(layout, "blobs/sha256"))) {
    const copy = join(dir, `copy-${file.slice(0, 8)}`);
    cpSync(layout, copy, { recursive: true });
    const bytes = readFileSync(join(copy, "blobs/sha256", file));
    if (bytes.toString() === "{}") continue;
    bytes[Math.floor(bytes.length / 2)]! ^= 1;
    writeFileSync(join(copy, "blobs/sha256", file), bytes);
    const error = await catchRefusal(install({ kind: "folder", path: copy }));
    expect({ file, ...error }).toMatchObject({
      code: "package.digest_mismatch",
      details: { expected: `sha256:${file}`, actual: sha256(bytes) },
    });
  }
});

describe("hostile artifacts", () => {
  const descriptor = (bytes: Buffer | string, mediaType: string) => ({
    ...registry.putBlob(bytes),
    mediaType,
  });
  const FILES = "application/vnd.vai.plugin.files.v1";
  const LAYER = "application/vnd.oci.image.layer.v1.tar+gzip";

  const CASES: [title: string, code: string, prepare: () => void][] = [
    [
      "an ordinary image",
      "package.source_invalid",
      () => changeManifest((manifest) => ({ ...manifest, artifactType: "a/b" })),
    ],
    [
      "an artifact without a layer",
      "package.source_invalid",
      () => changeManifest((manifest) => ({ ...manifest, layers: [] })),
    ],
    [
      "an artifact with two layers",
      "package.source_invalid",
      () => changeManifest((manifest) => ({ ...manifest, layers: [...manifest.layers, ...manifest.layers] })),
    ],
    [
      "a layer of a terabyte",
      "package.source_invalid",
      () =>
        changeManifest((manifest) => ({ ...manifest, layers: [{ ...manifest.layers[0], size: 2 ** 40 }] })),
    ],
    [
      "a listing of a gigabyte",
      "package.source_invalid",
      () => changeManifest((manifest) => ({ ...manifest, config: { ...manifest.config, size: 2 ** 30 } })),
    ],
    [
      "an invalid listing",
      "package.source_invalid",
      () => changeManifest((manifest) => ({ ...manifest, config: descriptor("what?", FILES) })),
    ],
    [
      "a listing of a path outside the package",
      "package.unsafe",
      () =>
        changeManifest((manifest) => ({
          ...manifest,
          config: descriptor(`0644 ../evil 1 ${"0".repeat(64)}\n`, FILES),
        })),
    ],
    [
      "a layer whose files differ from its listing",
      "package.digest_mismatch",
      () =>
        changeManifest((manifest) => ({
          ...manifest,
          layers: [descriptor(gzipSync(tar({ name: "vai-plugin.toml", body: MANIFEST })), LAYER)],
        })),
    ],
    [
      "a layer with a path outside its folder",
      "package.unsafe",
      () =>
        changeManifest((manifest) => ({
          ...manifest,
          layers: [descriptor(gzipSync(tar({ name: "../evil", body: "x" })), LAYER)],
        })),
    ],
    [
      "a layer that is not an archive",
      "package.unsafe",
      () =>
        changeManifest((manifest) => ({
          ...manifest,
          layers: [descriptor(Buffer.alloc(2_000, "x"), LAYER)],
        })),
    ],
    [
      "an artifact whose id differs from that of the package",
      "package.invalid",
      () =>
        changeManifest((manifest) => ({
          ...manifest,
          annotations: { ...manifest.annotations, "org.opencontainers.image.title": "acme/other" },
        })),
    ],
    [
      "an index in an index",
      "package.source_invalid",
      () => {
        const inner = { mediaType: "application/vnd.oci.image.index.v1+json", size: 1 };
        const digest = registry.putManifest({ manifests: [] });
        registry.putManifest({ manifests: [{ ...inner, digest }] }, "0.1.0");
      },
    ],
    [
      "an index without a package for this platform",
      "package.source_invalid",
      () => {
        const platform = { os: "plan9", architecture: "mips" };
        const entry = { mediaType: "a/b", digest: packed.manifest_digest, size: 1, platform };
        registry.putManifest({ manifests: [entry] }, "0.1.0");
      },
    ],
    [
      "a hundred signatures",
      "package.source_invalid",
      () => {
        const subject = { mediaType: "a/b", digest: packed.manifest_digest, size: 1 };
        for (let number = 0; number < 100; number++)
          registry.putManifest({
            artifactType: "application/vnd.vai.plugin.signature.v1+json",
            config: registry.putBlob("{}"),
            layers: [registry.putBlob(String(number))],
            subject,
          });
      },
    ],
  ];

  // A list of a hundred signatures is larger than LIMITS allows.
  const limits = { ...LIMITS, manifest_bytes: 100_000 };
  const createTolerantImporter = () =>
    createPackageImporter({
      store: openContentStore(join(dir, "blobs")),
      schemas,
      host: { os: "linux", arch: "amd64" },
      registries: { addresses: null, limits },
    });

  for (const [title, code, prepare] of CASES)
    verifies("pkg.oci", `refuses ${title} and leaves no file`, async () => {
      importer = createTolerantImporter();
      prepare();
      expect((await catchRefusal(fromRegistry())).code).toBe(code);
    });

  test("chooses the package for the host's platform from an index", async () => {
    const entry = { mediaType: "application/vnd.oci.image.manifest.v1+json", size: 1 };
    const platform = { os: "linux", architecture: "amd64" };
    const putIndex = (size: number) =>
      registry.putManifest(
        {
          manifests: [
            { ...entry, digest: sha256("other"), platform: { os: "darwin", architecture: "arm64" } },
            { ...entry, digest: packed.manifest_digest, size, platform },
          ],
        },
        "0.1.0",
      );
    putIndex(registry.manifests.get(packed.manifest_digest)!.length);
    expect((await fromRegistry()).digest).toBe(packed.digest);
    putIndex(1);
    await expect(fromRegistry()).rejects.toThrow("instead of 1");
  });

  verifies("pkg.oci", "reports a wrong digest or size in the index of a layout as a mismatch", async () => {
    const text = readFileSync(join(layout, "index.json"), "utf8");
    const { digest, size } = JSON.parse(text).manifests[0] as { digest: string; size: number };
    const other = digest.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
    for (const [changed, expected] of [
      [text.replace(digest, other), { expected: other, actual: "no such file" }],
      [
        text.replace(`"size":${size}`, `"size":${size + 1}`),
        { expected: `${digest} of ${size + 1} bytes`, actual: `${digest} of ${size} bytes` },
      ],
    ] as const) {
      writeFileSync(join(layout, "index.json"), changed);
      expect(await catchRefusal(install({ kind: "folder", path: layout }))).toMatchObject({
        code: "package.digest_mismatch",
        details: expected,
      });
    }
  });

  const LAYOUTS: [title: string, change: (copy: string) => void][] = [
    ["another version", (copy) => writeFileSync(join(copy, "oci-layout"), '{"imageLayoutVersion":"9"}')],
    ["an index that is not JSON", (copy) => writeFileSync(join(copy, "index.json"), "{")],
    ["no package", (copy) => writeFileSync(join(copy, "index.json"), '{"schemaVersion":2,"manifests":[]}')],
    [
      "two packages",
      (copy) => {
        const index = JSON.parse(readFileSync(join(copy, "index.json"), "utf8")) as { manifests: object[] };
        writeFileSync(
          join(copy, "index.json"),
          JSON.stringify({ ...index, manifests: [index.manifests[0], index.manifests[0]] }),
        );
      },
    ],
  ];

  test.each(LAYOUTS)("refuses a layout with %s", async (_what, change) => {
    const copy = join(dir, "copy");
    cpSync(layout, copy, { recursive: true });
    change(copy);
    expect((await catchRefusal(install({ kind: "folder", path: copy }))).code).toBe("package.source_invalid");
  });
});

describe("credentials in packages", () => {
  const KEY = `ghp_${"a1B2".repeat(9)}`;

  verifies("pkg.no-secrets", "refuses a credential in an archive and reports the file", async () => {
    const bytes = gzipSync(
      tar(
        ...Object.entries(HELLO).map(([name, body]) => ({ name, body, mode: 0o755 })),
        { name: "docs/notes.txt", body: `token ${KEY}` },
        { name: ".env", body: "A=1" },
      ),
    );
    const source = {
      kind: "archive",
      bytes: (async function* () {
        yield bytes;
      })(),
    } as const;
    const error = await catchRefusal(install(source));
    expect(error.code).toBe("package.credential_file");
    expect(error.message).toContain(".env");
    expect(error.details).toMatchObject({ files: [{ file: ".env" }, { file: "docs/notes.txt" }] });
  });

  verifies(
    "pkg.no-secrets",
    "refuses a credential in a package from a registry and reports the file",
    async () => {
      const files = { ...HELLO, "config.txt": `token ${KEY}` };
      await expect(publish(files)).rejects.toMatchObject({ code: "package.credential_file" });
      // Such a package can be packed only with another tool.
      const entries = Object.entries(files).map(([path, body]) => ({
        path,
        body,
        mode: path.startsWith("bin/") ? "0755" : "0644",
      }));
      const listing = entries
        .sort((a, b) => (a.path < b.path ? -1 : 1))
        .map(
          ({ path, body, mode }) => `${mode} ${path} ${Buffer.byteLength(body)} ${sha256(body).slice(7)}\n`,
        )
        .join("");
      const archive = tar(
        ...entries.map(({ path, body, mode }) => ({ name: path, body, mode: Number.parseInt(mode, 8) })),
      );
      await publish(HELLO);
      changeManifest((manifest) => ({
        ...manifest,
        config: { ...registry.putBlob(listing), mediaType: "application/vnd.vai.plugin.files.v1" },
        layers: [
          {
            ...registry.putBlob(gzipSync(archive)),
            mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
          },
        ],
      }));
      const error = await catchRefusal(fromRegistry());
      expect(error.code).toBe("package.credential_file");
      expect(error.message).toContain("config.txt");
    },
  );
});
