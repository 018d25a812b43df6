import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { computeTreeDigest, UNPACK_LIMITS, unpackArchive } from "../../src/index.ts";
import { inChunks } from "../support/tar-bytes.ts";
import { type ZipPart, zip } from "../support/zip-bytes.ts";
import { expectRefusal, folder, SMALL_LIMITS, unpack, useUnpackFolder } from "./unpack-folder.ts";

useUnpackFolder();

const good: ZipPart = { name: "ok.txt", body: "fine" };
const file = (name: string, more: ZipPart = {}): ZipPart => ({ name, body: "x", ...more });
const extraField = (id: number, body = "") => {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(id, 0);
  head.writeUInt16LE(body.length, 2);
  return Buffer.concat([head, Buffer.from(body)]);
};
const deflatedZeros = (length: number) => deflateRawSync(Buffer.alloc(length));
const locator64 = Buffer.alloc(20);
locator64.writeUInt32LE(0x07064b50, 0);

const HOSTILE: [name: string, rule: string, bytes: () => Buffer, limits?: typeof UNPACK_LIMITS][] = [
  ['a path with ".."', "path-traversal", () => zip([good, file("../evil")])],
  ['a path with ".." in the middle', "path-traversal", () => zip([file("a/../../evil")])],
  ['a folder with ".."', "path-traversal", () => zip([{ name: "../evil/", method: 0 }])],
  ["an absolute path", "absolute-path", () => zip([file("/etc/evil")])],
  ["a backslash", "backslash", () => zip([file("..\\evil")])],
  ["a drive letter", "drive-letter", () => zip([file("C:evil")])],
  ["a name with NUL", "control-character", () => zip([file("a\0b")])],
  ["a whiteout", "whiteout", () => zip([file(".wh.a")])],
  ["a symbolic link", "link", () => zip([file("a", { mode: 0o120777, body: "/etc/passwd" })])],
  ["a device", "entry-type", () => zip([file("a", { mode: 0o020666 })])],
  ["a setuid bit", "special-mode", () => zip([file("a", { mode: 0o104755 })])],
  ["a file with the mode of a folder", "ambiguous", () => zip([file("a", { mode: 0o040755 })])],
  ["the same name twice", "duplicate", () => zip([good, good])],
  ["names that differ in case", "collision", () => zip([file("a.txt"), file("A.txt")])],
  ["names that differ in Unicode form", "collision", () => zip([file("\u00e9"), file("e\u0301")])],
  ["a file and a folder with one name", "file-and-folder", () => zip([file("a"), file("a/b")])],
  ["an encrypted entry", "encrypted", () => zip([file("a", { flags: 0x0801 })])],
  ["strong encryption", "encrypted", () => zip([file("a", { flags: 0x0841 })])],
  ["an encrypted central directory", "encrypted", () => zip([file("a", { flags: 0x2800 })])],
  ["an entry with patch data", "entry-type", () => zip([file("a", { flags: 0x0820 })])],
  [
    "an unknown compression method",
    "compression",
    () => zip([file("a", { method: 12, data: Buffer.from("x") })]),
  ],
  ["a name that is not UTF-8", "encoding", () => zip([{ rawName: Buffer.from([0x61, 0xff]), body: "x" }])],
  [
    "a name in an old code page",
    "encoding",
    () => zip([{ rawName: Buffer.from([0x81]), flags: 0, body: "x" }]),
  ],
  [
    "a second name in an extra field",
    "extended-header",
    () => zip([file("a", { extra: extraField(0x7075, "12345b") })]),
  ],
  ["a broken extra field", "extended-header", () => zip([file("a", { extra: Buffer.from([1]) })])],
  [
    "a broken extra field in the local header",
    "extended-header",
    () => zip([file("a", { local: { extra: Buffer.from([1]) } })]),
  ],
  ["zip64 in an extra field", "zip64", () => zip([file("a", { extra: extraField(1, "12345678") })])],
  [
    "zip64 in the local header",
    "zip64",
    () => zip([file("a", { local: { extra: extraField(1, "12345678") } })]),
  ],
  ["a size that needs zip64", "zip64", () => zip([file("a", { size: 0xffffffff })])],
  ["an offset that needs zip64", "zip64", () => zip([file("a", { offset: 0xffffffff })])],
  ["a count that needs zip64", "zip64", () => zip([good], { count: 0xffff })],
  ["a zip64 locator", "zip64", () => zip([good], { gap: locator64 })],
  ["one part of a split archive", "split", () => zip([good], { disk: 1 })],
  ["an entry on another disk", "split", () => zip([file("a", { disk: 2 })])],
  ["fewer entries on this disk than in total", "split", () => zip([good], { entries_on_disk: 0 })],
  ["a count that is too large", "garbage", () => zip([good], { count: 2 })],
  ["a count that is too small", "ambiguous", () => zip([good, file("hidden")], { count: 1 })],
  [
    "data before the first entry",
    "ambiguous",
    () => zip([good], { before: Buffer.from("#!/bin/sh\n") }).subarray(10),
  ],
  [
    "data before the first entry that the central directory accounts for",
    "ambiguous",
    () => zip([good], { before: Buffer.from("PK\x03\x04hidden") }),
  ],
  ["data between two entries", "ambiguous", () => zip([file("a", { after: Buffer.from("hidden") }), good])],
  ["data before the central directory", "ambiguous", () => zip([good], { between: Buffer.from("hidden") })],
  ["data after the central directory", "ambiguous", () => zip([good], { gap: Buffer.from("hidden") })],
  ["data after the end record", "truncated", () => Buffer.concat([zip([good]), Buffer.from("more")])],
  [
    "a second end record in the comment",
    "ambiguous",
    () => zip([good], { comment: zip([good]).subarray(-22) }),
  ],
  ["two entries at the same offset", "overlap", () => zip([good, file("b", { offset: 0 })])],
  [
    "an entry inside another",
    "overlap",
    () => zip([file("a", { method: 0, body: zip([good]) }), file("b", { offset: 31 })]),
  ],
  [
    "a missing local header",
    "garbage",
    () => flipBit(zip([good, file("b")]), 36 + deflateRawSync(Buffer.from("fine")).length),
  ],
  ["another name in the local header", "ambiguous", () => zip([file("a", { local: { name: "b" } })])],
  ["another size in the local header", "ambiguous", () => zip([file("a", { local: { size: 9 } })])],
  ["other flags in the local header", "ambiguous", () => zip([file("a", { local: { flags: 0 } })])],
  [
    "another compression method in the local header",
    "ambiguous",
    () => zip([file("a", { local: { method: 0 } })]),
  ],
  ["two sizes of an uncompressed entry", "ambiguous", () => zip([file("a", { method: 0, size: 9 })])],
  [
    "an incorrect data descriptor",
    "ambiguous",
    () => flipBit(zip([file("a", { descriptor: true }), good]), 30 + 1 + 3 + 5),
  ],
  ["a missing data descriptor", "ambiguous", () => zip([file("a", { flags: 0x0808 })])],
  ["a wrong checksum", "checksum", () => zip([file("a", { crc: 1 })])],
  ["a size that is too large", "size", () => zip([file("a", { size: 2 })])],
  ["a size that is too small", "size", () => zip([{ name: "a", body: "xy", size: 1 }])],
  [
    "more data than announced",
    "bomb",
    () => zip([{ name: "a", data: deflatedZeros(10_000), size: 10, crc: 0 }]),
  ],
  ["damaged data", "garbage", () => zip([file("a", { data: Buffer.from([0xff, 0xff, 0xff]) })])],
  [
    "data after the compressed data",
    "ambiguous",
    () =>
      zip([file("a", { data: Buffer.concat([deflateRawSync(Buffer.from("x")), Buffer.from("hidden")]) })]),
  ],
  ["a folder with data", "folder-with-data", () => zip([{ name: "a/", body: "x" }])],
  [
    "a folder with hidden data",
    "folder-with-data",
    () => zip([good, { name: "a/", data: Buffer.from("hidden") }]),
  ],
  [
    "a folder with data of two bytes",
    "folder-with-data",
    () => zip([{ name: "a/", data: Buffer.from("hi") }]),
  ],
  [
    "a folder with data after its compressed data",
    "folder-with-data",
    () => zip([{ name: "a/", data: Buffer.concat([deflateRawSync(""), Buffer.from("hidden")]) }]),
  ],
  ["a folder with a checksum", "checksum", () => zip([good, { name: "a/", method: 0, crc: 1 }])],
  ["a decompression bomb", "bomb", () => zip([{ name: "a", body: Buffer.alloc(20 * 1024 * 1024) }])],
  [
    "one file that is too large",
    "file-too-large",
    () => zip([{ name: "a", body: Buffer.alloc(20_000) }]),
    SMALL_LIMITS,
  ],
  [
    "files that are too large together",
    "too-large",
    () => zip(Array.from({ length: 6 }, (_, index) => ({ name: `f${index}`, body: Buffer.alloc(15_000) }))),
    SMALL_LIMITS,
  ],
  [
    "too many bytes",
    "too-large",
    () => Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(70_000)]),
    SMALL_LIMITS,
  ],
  [
    "too many entries",
    "too-many-entries",
    () => zip(Array.from({ length: 51 }, (_, index) => file(`f${index}`))),
    SMALL_LIMITS,
  ],
  ["no entries", "empty", () => zip([])],
  ["truncation", "truncated", () => zip([good]).subarray(0, 60)],
];

function flipBit(bytes: Buffer, position: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[position] = (copy[position] as number) ^ 0x10;
  return copy;
}

describe("refuses a zip archive without leaving files:", () => {
  for (const [name, rule, bytes, limits] of HOSTILE) {
    verifies("pkg.unpack-safe", name, async () => {
      expect((await expectRefusal(bytes(), limits)).rule).toBe(rule);
    });
  }
});

describe("a valid zip archive", () => {
  test("unpacks stored and compressed entries, with and without a data descriptor, to files with two modes", async () => {
    const bytes = zip(
      [
        { name: "META-INF/", method: 0 },
        {
          name: "META-INF/MANIFEST.MF",
          body: "Manifest-Version: 1.0\n",
          descriptor: true,
          extra: extraField(0xcafe),
        },
        file("bin/run", { mode: 0o100755 }),
        file("ü.txt", { method: 0 }),
        { name: "none", body: "" },
      ],
      { comment: Buffer.from("a comment") },
    );
    const listing = await unpack(bytes, UNPACK_LIMITS, 7);
    expect(listing.files.map(({ path, mode }) => `${mode} ${path}`)).toEqual([
      "0644 META-INF/MANIFEST.MF",
      "0755 bin/run",
      "0644 none",
      "0644 ü.txt",
    ]);
    expect(readFileSync(join(folder, "tree/META-INF/MANIFEST.MF"), "utf8")).toBe("Manifest-Version: 1.0\n");
    expect(await computeTreeDigest(join(folder, "tree"))).toBe(listing.digest);
  });

  test("unpacks when Python's zipfile wrote it", async () => {
    const script = `import sys,zipfile
with zipfile.ZipFile(sys.argv[1],"w",zipfile.ZIP_DEFLATED) as z:
  z.writestr("a/b.txt","hello"*100)
  z.writestr("c.txt","")
  z.writestr("compressed/","",zipfile.ZIP_DEFLATED)
  z.writestr("uncompressed/","",zipfile.ZIP_DEFLATED,0)
  z.mkdir("stored") if hasattr(z,"mkdir") else z.writestr("stored/","",zipfile.ZIP_STORED)`;
    execFileSync("python3", ["-c", script, join(folder, "py.zip")]);
    const bytes = readFileSync(join(folder, "py.zip"));
    const { files } = await unpack(bytes);
    expect(files.map(({ path, size }) => [path, size])).toEqual([
      ["a/b.txt", 500],
      ["c.txt", 0],
    ]);
  });
});

test("does not mistake a tar whose first name begins with PK for a zip archive", async () => {
  const { tar } = await import("../support/tar-bytes.ts");
  expect((await unpack(tar({ name: "PKG-INFO", body: "x" }))).files).toHaveLength(1);
});

test("unpacks a mutated zip archive, or refuses it with package.unsafe without leaving files", async () => {
  const valid = zip([good, file("a/b", { descriptor: true }), file("c", { method: 0 })]);
  let round = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }),
      async (changes) => {
        const bytes = Buffer.from(valid);
        for (const [at, value] of changes) bytes[at] = value;
        const target = join(folder, String(round++));
        mkdirSync(target);
        const code = await unpackArchive(inChunks(bytes), join(target, "tree")).then(
          () => null,
          (error: { code: string }) => error.code,
        );
        expect(code === null || code === "package.unsafe", String(code)).toBe(true);
        expect(readdirSync(target)).toEqual(code === null ? ["tree"] : []);
      },
    ),
    { numRuns: 300, seed: 7 },
  );
});
