/** Applies layers of container images, valid and hostile, without a registry. */
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { applyLayer, type LayerSpool, readSpool } from "../../src/container-images/apply-layer.ts";
import { IMAGE_LIMITS } from "../../src/container-images/image-limits.ts";
import { ImageTree } from "../../src/container-images/image-tree.ts";
import { writeRoot } from "../../src/container-images/root-files.ts";
import { type LayerEntry, packLayer } from "../support/image-layers.ts";
import { entry, pax, tar } from "../support/tar-bytes.ts";

let root: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "backplane-hostile-layers-"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const LIMITS = { ...IMAGE_LIMITS, entries: 1_000, unpacked_bytes: 4 * 1024 * 1024, header_bytes: 256 * 1024 };

/**
 * Applies layers and returns the entries of the image: the target of a link after `->`, the content of a file, null for
 * a folder.
 */
async function applyLayers(
  ...layers: (readonly LayerEntry[] | Buffer)[]
): Promise<Record<string, string | null>> {
  const tree = new ImageTree(LIMITS);
  const handle = await open(join(mkdtempSync(join(root, "spool-")), "spool"), "wx+");
  const spool: LayerSpool = { handle, bytes: 0, entries: 0, unpacked: 0 };
  try {
    for (const [index, layer] of layers.entries()) {
      const bytes = Buffer.isBuffer(layer) ? layer : await packLayer(layer);
      await applyLayer(tree, index, inChunks(bytes), spool, LIMITS);
    }
    const contents: Record<string, string | null> = {};
    for (const { path, node } of tree.entries()) {
      if (node.kind === "folder") contents[path] = null;
      else if (node.kind === "link") contents[path] = `-> ${node.target}`;
      else {
        const { offset, size } = node.content;
        const { buffer } = await handle.read(Buffer.alloc(size), 0, size, offset);
        contents[path] = `${buffer.toString()}${node.executable ? " (program)" : ""}`;
      }
    }
    return contents;
  } finally {
    await handle.close();
  }
}

async function* inChunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += 4_096) yield bytes.subarray(start, start + 4_096);
}

test("merges layers with whiteouts, opaque folders, hard links and compression", async () => {
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
  const upper = await packLayer([
    { name: "etc/.wh.a", body: "" },
    { name: "opt/old/new", body: "new" },
    { name: "opt/old/.wh..wh..opq", body: "" },
    { name: ".wh.gone", body: "" },
    { name: "etc/.wh..wh.aufs", body: "" },
    { name: "lib/through-a-link", body: "inside" },
  ]);
  expect(await applyLayers(lower, zstdCompressSync(upper))).toEqual({
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

verifies("source.image", "follows links of a layer only inside the image", async () => {
  const links = [
    { name: "a", type: "symlink", linkname: "/" },
    { name: "b", type: "symlink", linkname: "../../../../tmp" },
    { name: "c", type: "symlink", linkname: "b/../../.." },
    { name: "a/tmp/one", body: "1" },
    { name: "b/two", body: "2" },
    { name: "c/three", body: "3" },
  ] as const;
  expect(await applyLayers(links)).toMatchObject({ "tmp/one": "1", "tmp/two": "2", three: "3" });
  expect(existsSync("/tmp/two")).toBe(false);
  // A whiteout through a link removes a file of the image, not of the host.
  expect(await applyLayers(links, [{ name: "b/.wh.two", body: "" }])).not.toHaveProperty("tmp/two");
});

const HOSTILE: [what: string, rule: string, entries: readonly LayerEntry[]][] = [
  ["a path with ..", "path-traversal", [{ name: "a/../../b", body: "" }]],
  ["a device", "device", [{ name: "disk", type: "block-device" }]],
  ["a device outside /dev", "device", [{ name: "devices/null", type: "character-device" }]],
  ["a named pipe", "device", [{ name: "pipe", type: "fifo" }]],
  ["a whiteout without a name", "whiteout", [{ name: "etc/.wh.", body: "" }]],
  ["a whiteout of the parent", "whiteout", [{ name: "etc/.wh...", body: "" }]],
  ["a hard link to a missing file", "hard-link", [{ name: "x", type: "link", linkname: "etc/shadow" }]],
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
    await expect(applyLayers(entries), label).rejects.toMatchObject({
      code: "package.unsafe",
      message: expect.stringMatching(/^The container image was refused: /) as string,
      details: { rule },
    });
  await expect(applyLayers(Buffer.from("not a tar at all".repeat(100)))).rejects.toMatchObject({
    details: { rule: "garbage" },
  });
});

/** The paths are as deep as a tar entry allows, and each link leads to the deepest folder of the previous path. */
const DEEP_BY_LINKS: readonly LayerEntry[] = Array.from({ length: 4 }, (_, index) => [
  { name: `${index === 0 ? "" : `l${index}/`}${"d/".repeat(40)}x`, body: "" },
  {
    name: `l${index + 1}`,
    type: "symlink" as const,
    linkname: `${index === 0 ? "" : `l${index}/`}${"d/".repeat(40)}`,
  },
]).flat();

const HOSTILE_BYTES: [what: string, rule: string, layer: () => Buffer | Promise<Buffer>][] = [
  [
    "an extended header that the parser would keep in memory",
    "extended-header",
    () =>
      tar(
        entry({ name: "PaxHeader", type: "x", body: Buffer.alloc(1024 * 1024, 0x20) }),
        entry({ name: "a" }),
      ),
  ],
  [
    "a long name that the parser would keep in memory",
    "extended-header",
    () => tar(entry({ name: "././@LongLink", type: "L", body: Buffer.alloc(1024 * 1024, 0x61) })),
  ],
  [
    "megabytes of padding",
    "extended-header",
    () => Buffer.concat([tar({ name: "a" }), Buffer.alloc(1024 * 1024)]),
  ],
  [
    "a sparse file",
    "sparse",
    () =>
      tar(
        pax({ "GNU.sparse.major": "1", "GNU.sparse.realsize": "99999999999" }),
        entry({ name: "a", body: "x" }),
      ),
  ],
  ["a sparse file of the old form", "device", () => tar(entry({ name: "a", type: "S", body: "x" }))],
  [
    "a size that is not a number",
    "garbage",
    () => tar(pax({ size: "many" }), entry({ name: "a", body: "x" })),
  ],
  ["a negative size", "garbage", () => tar(pax({ size: "-512" }), entry({ name: "a", body: "x" }))],
  [
    "a size that the layer does not have",
    "garbage",
    () => tar(pax({ size: "99999999999" }), entry({ name: "a", body: "x" })),
  ],
  [
    "many folders without entries of their own",
    "too-many-entries",
    () =>
      packLayer(
        Array.from({ length: 40 }, (_, index) => ({ name: `${index}/${"d/".repeat(50)}x`, body: "" })),
      ),
  ],
  ["a tree that links make deeper than any path", "path-too-deep", () => packLayer(DEEP_BY_LINKS)],
];

verifies(
  "source.image",
  "refuses sparse files, false sizes, and layers that would use up memory",
  async () => {
    for (const [label, rule, layer] of HOSTILE_BYTES)
      await expect(applyLayers(await layer()), label).rejects.toMatchObject({
        code: "package.unsafe",
        details: { rule },
      });
  },
);

verifies(
  "source.image",
  "limits the steps through links, the length of all names and the size of the expanded files",
  async () => {
    const applyAndWriteRoot = async (
      limits: Partial<typeof IMAGE_LIMITS>,
      entries: readonly LayerEntry[],
    ) => {
      const handle = await open(join(mkdtempSync(join(root, "spool-")), "spool"), "wx+");
      const spool: LayerSpool = { handle, bytes: 0, entries: 0, unpacked: 0 };
      const all_limits = { ...IMAGE_LIMITS, ...limits };
      try {
        const tree = new ImageTree(all_limits);
        await applyLayer(tree, 0, inChunks(await packLayer(entries)), spool, all_limits);
        const folder = mkdtempSync(join(root, "package-"));
        await writeRoot(tree, handle, folder, all_limits);
        return folder;
      } finally {
        await handle.close();
      }
    };
    const links: readonly LayerEntry[] = [
      { name: "a", type: "directory" },
      { name: "l", type: "symlink", linkname: "a/../".repeat(500) },
      ...Array.from({ length: 20 }, (_, index) => ({ name: `l/${index}`, body: "" })),
    ];
    await expect(applyAndWriteRoot({ steps: 10_000 }, links)).rejects.toMatchObject({
      details: { rule: "too-many-links" },
    });
    const targets = Array.from(
      { length: 10 },
      (_, index): LayerEntry => ({ name: `${index}`, type: "symlink", linkname: "t".repeat(90) }),
    );
    await expect(applyAndWriteRoot({ text_bytes: 500 }, targets)).rejects.toMatchObject({
      details: { rule: "names-too-long" },
    });
    // Each name is short, but the path of each file contains all folders above it.
    const deep_files = Array.from(
      { length: 20 },
      (_, index): LayerEntry => ({ name: `${"folder/".repeat(10)}${index}`, body: "" }),
    );
    await expect(applyAndWriteRoot({ text_bytes: 500 }, deep_files)).rejects.toMatchObject({
      details: { rule: "names-too-long" },
    });
    const hard_links = [
      { name: "data", body: Buffer.alloc(10_000) },
      ...Array.from(
        { length: 10 },
        (_, index): LayerEntry => ({ name: `h${index}`, type: "link", linkname: "data" }),
      ),
    ];
    // The package stores the content once; every process would get eleven files.
    await expect(applyAndWriteRoot({ unpacked_bytes: 50_000 }, hard_links)).rejects.toMatchObject({
      details: { rule: "too-large" },
    });
    const folder = await applyAndWriteRoot({}, hard_links);
    expect(statSync(join(folder, "image/root.data")).size).toBe(10_000);
  },
);

test("fails to read a file whose content is not completely in the spool", async () => {
  const handle = await open(join(mkdtempSync(join(root, "spool-")), "spool"), "wx+");
  try {
    await handle.writeFile("12345");
    const read = async (offset: number, size: number) => {
      let text = "";
      for await (const chunk of readSpool(handle, { offset, size })) text += Buffer.from(chunk).toString();
      return text;
    };
    expect(await read(1, 4)).toBe("2345");
    expect(await read(5, 0)).toBe("");
    for (const [offset, size] of [
      [1, 5],
      [9, 1],
    ] as const)
      await expect(read(offset, size)).rejects.toMatchObject({ code: "package.corrupt" });
  } finally {
    await handle.close();
  }
});

test("applies many whiteouts of the same folder once", async () => {
  const files = Array.from({ length: 400 }, (_, index) => ({ name: `a/b/${index}`, body: "" }));
  const tree = new ImageTree();
  for (const { name } of files) tree.addFile(name, false, { offset: 0, size: 0 }, 1);
  let visits = 0;
  const folder = tree.find(["a", "b"]) as { children: Map<string, unknown> };
  const iterate = folder.children[Symbol.iterator].bind(folder.children);
  folder.children[Symbol.iterator] = () => {
    visits++;
    return iterate();
  };
  for (let index = 0; index < 100; index++) {
    expect(tree.applyWhiteout("a/b/.wh..wh..opq", 1)).toBe(true);
    expect(tree.applyWhiteout("a/.wh..wh..opq", 1)).toBe(true);
  }
  expect(visits).toBe(1);
});
