/** Valid tar archives, and mutations of them. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computeTreeDigest, UNPACK_LIMITS, unpackArchive } from "../../src/index.ts";
import { inChunks, pax, type TarEntry, tar } from "../support/tar-bytes.ts";
import { folder, nextFolder, unpack, useUnpackFolder } from "./unpack-folder.ts";

useUnpackFolder();

const good: TarEntry = { name: "ok.txt", body: "fine" };

const file = (name: string, more: TarEntry = {}): TarEntry => ({ name, body: "x", ...more });

const dir = (name: string): TarEntry => ({ name, type: "5", mode: 0o755 });

describe("a valid tar archive", () => {
  const valid = tar(
    dir("./"),
    dir("bin/"),
    file("./bin/run", { mode: 0o755, body: "#!/bin/sh\n" }),
    file("a b/\u00fc.txt"),
    dir("empty/"),
    pax({ path: `long/${"n".repeat(200)}`, mtime: "1.5", "SCHILY.xattr.user.x": "y" }),
    file("short"),
    file("none", { body: "", mode: 0o600 }),
  );

  for (const [name, bytes] of [
    ["tar", valid],
    ["tar.gz", gzipSync(valid)],
  ] as const) {
    test(`unpacks as ${name} in chunks of seven bytes to regular files with two modes`, async () => {
      const listing = await unpack(bytes, UNPACK_LIMITS, 7);
      const tree = join(folder, "tree");
      expect(listing.files.map(({ path, mode }) => `${mode} ${path}`)).toEqual([
        "0644 a b/\u00fc.txt",
        "0755 bin/run",
        `0644 long/${"n".repeat(200)}`,
        "0644 none",
      ]);
      expect(readFileSync(join(tree, "bin/run"), "utf8")).toBe("#!/bin/sh\n");
      expect(statSync(join(tree, "bin/run")).mode & 0o7777).toBe(0o755);
      expect(statSync(join(tree, "none")).mode & 0o7777).toBe(0o644);
      expect(existsSync(join(tree, "empty"))).toBe(false);
      expect(await computeTreeDigest(tree)).toBe(listing.digest);
    });
  }

  test("has a digest of content, names and the executable bit only", async () => {
    const digests = [];
    for (const parts of [
      [file("a"), file("b", { mode: 0o755 })],
      [file("b", { mode: 0o711 }), dir("c"), file("a", { mode: 0o600 })],
      [file("a"), file("b")],
    ]) {
      nextFolder();
      digests.push((await unpack(tar(...parts))).digest);
    }
    expect(digests[0]).toBe(digests[1]);
    expect(digests[0]).not.toBe(digests[2]);
  });

  test("is unpacked after the folders that a killed process left are removed", async () => {
    mkdirSync(join(folder, ".unpack-999999999-abc-123", "x"), { recursive: true });
    await unpack(tar(good));
    expect(readdirSync(folder)).toEqual(["tree"]);
  });
});

describe("a mutated tar archive", () => {
  const seeds = [
    tar(
      dir("bin/"),
      file("bin/run", { mode: 0o755, body: Buffer.alloc(700, "r") }),
      pax({ path: "p/long" }),
      file("x"),
      file("y"),
    ),
    gzipSync(tar(file("a", { body: "hello" }), file("b/c", { body: Buffer.alloc(3_000, "z") }))),
  ];
  const edit = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) });
  test("is unpacked, or refused with package.unsafe without leaving files", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...seeds),
        fc.array(edit, { minLength: 1, maxLength: 4 }),
        fc.option(fc.nat(), { freq: 4 }),
        fc.integer({ min: 1, max: 5_000 }),
        async (seed, edits, length, chunk_size) => {
          let bytes = Buffer.from(seed);
          for (const { at, byte } of edits) bytes[at % bytes.length] = byte;
          if (length !== null) bytes = bytes.subarray(0, length % bytes.length);
          const target = join(folder, "tree");
          const code = await unpackArchive(inChunks(bytes, chunk_size), target).then(
            () => "ok",
            (error: { code?: string }) => error.code,
          );
          expect(["ok", "package.unsafe"]).toContain(code);
          expect(readdirSync(folder)).toEqual(code === "ok" ? ["tree"] : []);
          rmSync(target, { recursive: true, force: true });
        },
      ),
      { numRuns: 400, seed: 7 },
    );
  }, 120_000);
});
