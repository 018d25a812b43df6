/** Tar archives that must be refused without leaving files. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type UNPACK_LIMITS, unpackArchive } from "../../src/index.ts";
import { END, entry, pax, type TarEntry, tar } from "../support/tar-bytes.ts";
import { expectRefusal, folder, SMALL_LIMITS, useUnpackFolder } from "./unpack-folder.ts";

useUnpackFolder();

const good: TarEntry = { name: "ok.txt", body: "fine" };

const file = (name: string, more: TarEntry = {}): TarEntry => ({ name, body: "x", ...more });

const dir = (name: string): TarEntry => ({ name, type: "5", mode: 0o755 });

const HOSTILE: [name: string, rule: string, bytes: () => Buffer, limits?: typeof UNPACK_LIMITS][] = [
  ['a path with ".."', "path-traversal", () => tar(good, file("../evil"))],
  ['a path with ".." in the middle', "path-traversal", () => tar(good, file("a/../../evil"))],
  ['a path with ".." through the prefix', "path-traversal", () => tar(file("evil", { prefix: "../.." }))],
  ['a path with ".." in a pax header', "path-traversal", () => tar(pax({ path: "../evil" }), file("ok"))],
  [
    'a path with ".." in a GNU long name',
    "path-traversal",
    () => tar(entry({ name: "././@LongLink", type: "L", body: "../evil\0", magic: "ustar  \0" }), file("ok")),
  ],
  ['a folder with ".."', "path-traversal", () => tar(dir("../evil/"))],
  ['a character that normalizes to ".."', "path-traversal", () => tar(file("a/\u2025/b"))],
  ["a character that normalizes to a slash", "unicode-path", () => tar(file("a\uff0fb"))],
  ["an absolute path", "absolute-path", () => tar(file("/etc/passwd"))],
  ["an absolute path in a pax header", "absolute-path", () => tar(pax({ path: "/etc/passwd" }), file("ok"))],
  ["a drive letter", "drive-letter", () => tar(file("C:/windows/x"))],
  ["a backslash", "backslash", () => tar(file("a\\..\\evil"))],
  ["an alternate data stream of a file", "colon", () => tar(file("a/b.txt:hidden"))],
  ["a line feed in a name", "control-character", () => tar(file("a\nb"))],
  ["an escape sequence in a name", "control-character", () => tar(file("a\x1b[2Jb"))],
  ["a NUL in a pax path", "control-character", () => tar(pax({ path: "a\0b" }), file("ok"))],
  [
    "text after the NUL of a long name",
    "extended-header",
    () => tar(entry({ name: "L", type: "L", body: "a\0b" }), file("ok")),
  ],
  ["a direction override in a name", "invisible-character", () => tar(file("a\u202etxt.sh"))],
  [
    "a name that is not UTF-8",
    "encoding",
    () => tar({ rawName: Buffer.from([0x61, 0xff, 0xfe]), body: "x" }),
  ],
  ["an empty name", "name", () => tar(file(""))],
  ["an empty part", "path-form", () => tar(file("a//b"))],
  ["a file whose name ends in a slash", "path-form", () => tar(file("a/"))],
  ["a symbolic link", "symlink", () => tar({ name: "l", type: "2", link: "/etc/passwd" })],
  [
    "a file written through a link",
    "symlink",
    () => tar({ name: "l", type: "2", link: "/tmp" }, file("l/x")),
  ],
  ["a hard link", "hard-link", () => tar(good, { name: "l", type: "1", link: "ok.txt" })],
  [
    "a link with a long target",
    "hard-link",
    () => tar(entry({ name: "K", type: "K", body: "/etc/passwd\0" }), file("l")),
  ],
  [
    "a link target in a pax header",
    "extended-header",
    () => tar(pax({ linkpath: "/etc/passwd" }), file("l")),
  ],
  ["a character device", "device", () => tar({ name: "d", type: "3" })],
  ["a block device", "device", () => tar({ name: "d", type: "4" })],
  ["a pipe", "fifo", () => tar({ name: "p", type: "6" })],
  ["a socket, which tar has no type for", "entry-type", () => tar({ name: "s", type: "s" })],
  ["a contiguous file", "entry-type", () => tar(file("c", { type: "7" }))],
  ["a volume header", "entry-type", () => tar({ name: "v", type: "V" })],
  ["a setuid bit", "special-mode", () => tar(file("s", { mode: 0o4755 }))],
  ["a setgid bit", "special-mode", () => tar(file("s", { mode: 0o2755 }))],
  ["a sticky bit on a folder", "special-mode", () => tar({ name: "s", type: "5", mode: 0o1777 })],
  ["a whiteout", "whiteout", () => tar(file("a/.wh.b"))],
  ["an opaque whiteout", "whiteout", () => tar(file(".wh..wh..opq"))],
  ["names that differ by case", "collision", () => tar(file("Read.md"), file("READ.md"))],
  ["folders that differ by case", "collision", () => tar(file("bin/a"), file("Bin/b"))],
  ["names that differ by Unicode form", "collision", () => tar(file("caf\u00e9"), file("cafe\u0301"))],
  ["names that differ by compatibility form", "collision", () => tar(file("\ufb01le"), file("file"))],
  ["names that differ by case beyond ASCII", "collision", () => tar(file("stra\u00dfe"), file("STRASSE"))],
  ["a file that is a folder too", "file-and-folder", () => tar(file("a"), file("a/b"))],
  ["a folder that is a file too", "file-and-folder", () => tar(file("a/b"), file("a"))],
  ["a file twice", "duplicate", () => tar(file("a"), file("a"))],
  ["a folder twice", "duplicate", () => tar(dir("a/"), dir("a/"))],
  ["a trailing dot", "trailing-dot", () => tar(file("a."))],
  ["a trailing space in a folder", "trailing-dot", () => tar(file("a /b"))],
  ["a reserved name", "reserved-name", () => tar(file("aux.txt"))],
  ["a reserved name in a folder", "reserved-name", () => tar(file("a/COM1/b"))],
  ["a part that is too long", "name-too-long", () => tar(pax({ path: `a/${"b".repeat(256)}` }), file("ok"))],
  [
    "a path that is too long",
    "path-too-long",
    () => tar(pax({ path: Array(9).fill("c".repeat(120)).join("/") }), file("ok")),
  ],
  [
    "a path that is too deep",
    "path-too-deep",
    () => tar(pax({ path: Array(40).fill("d").join("/") }), file("ok")),
  ],
  [
    "a huge extended header",
    "extended-header",
    () => tar(entry({ name: "P", type: "x", body: Buffer.alloc(17_000, "a") }), file("ok")),
  ],
  ["a size stated twice", "extended-header", () => tar(pax({ size: "1024" }), file("ok"))],
  [
    "a malformed pax record",
    "extended-header",
    () => tar(entry({ name: "P", type: "x", body: "999 path=x\n" }), file("ok")),
  ],
  [
    "a pax record without a key",
    "extended-header",
    () => tar(entry({ name: "P", type: "x", body: "6 =xx\n" }), file("ok")),
  ],
  [
    "a pax path twice",
    "extended-header",
    () => tar(entry({ name: "P", type: "x", body: "10 path=a\n10 path=b\n" }), file("ok")),
  ],
  ["two extended headers", "extended-header", () => tar(pax({ mtime: "1" }), pax({ path: "b" }), file("ok"))],
  ["a GNU sparse file", "sparse", () => tar(file("s", { type: "S" }))],
  ["a sparse file in a pax header", "sparse", () => tar(pax({ "GNU.sparse.major": "1" }), file("s"))],
  ["a global extended header", "global-header", () => tar(pax({ comment: "x" }, "g"), file("ok"))],
  ["an extended header without an entry", "truncated", () => tar(good, pax({ mtime: "1" }))],
  ["a folder with data", "folder-with-data", () => tar({ name: "d/", type: "5", body: "x" })],
  [
    "too many entries",
    "too-many-entries",
    () => tar(...Array.from({ length: 51 }, (_, index) => file(`f${index}`))),
    SMALL_LIMITS,
  ],
  ["a file that is too large", "file-too-large", () => tar(file("big", { size: 17_000 })), SMALL_LIMITS],
  [
    "files that are too large together",
    "too-large",
    () => tar(...Array.from({ length: 5 }, (_, index) => file(`f${index}`, { body: Buffer.alloc(16_000) }))),
    SMALL_LIMITS,
  ],
  ["a size in base 256", "garbage", () => tar(file("b", { size: "\x80\0\0\0\0\0\0\0\0\0\0\x01" }))],
  ["a negative size", "garbage", () => tar(file("b", { size: "-1" }))],
  ["a wrong checksum", "garbage", () => tar(file("b", { checksum: 1 }))],
  ["a header of an unknown format", "garbage", () => tar(file("b", { magic: "notatar!" }))],
  [
    "zeros and then another file",
    "data-after-end",
    () => Buffer.concat([tar(good), entry(file("hidden")), END]),
  ],
  [
    "an end in the middle of a file",
    "truncated",
    () => tar(file("a", { body: Buffer.alloc(5_000) })).subarray(0, 2_048),
  ],
  ["an end after a whole file", "truncated", () => entry(good)],
  ["one zero block at the end", "truncated", () => Buffer.concat([entry(good), Buffer.alloc(512)])],
  ["an empty archive", "empty", () => Buffer.alloc(0)],
  [
    "the beginning of a zip",
    "truncated",
    () => Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(2_000, 7)]),
  ],
  ["a gzip header and nothing else", "garbage", () => gzipSync(tar(good)).subarray(0, 12)],
  [
    "truncated gzip data",
    "garbage",
    () =>
      gzipSync(
        tar(file("r", { body: Buffer.from(Array.from({ length: 9_000 }, (_, i) => (i * 7919) % 251)) })),
      ).subarray(0, -20),
  ],
  ["a flipped bit in gzip data", "garbage", () => flipBit(gzipSync(tar(good)), -6)],
  ["data after gzip data", "garbage", () => Buffer.concat([gzipSync(tar(good)), Buffer.from("tail")])],
  [
    "a decompression bomb",
    "bomb",
    () => gzipSync(tar(file("zeros", { body: Buffer.alloc(32 * 1024 * 1024) }))),
  ],
  [
    "a bomb of trailing zeros",
    "bomb",
    () => gzipSync(Buffer.concat([tar(good), Buffer.alloc(32 * 1024 * 1024)])),
  ],
];

/** `end_offset` is negative and counts from the end. */
function flipBit(bytes: Buffer, end_offset: number): Buffer {
  const copy = Buffer.from(bytes);
  const index = copy.length + end_offset;
  copy[index] = (copy[index] as number) ^ 0x10;
  return copy;
}

describe("refuses a tar archive without leaving files:", () => {
  for (const [name, rule, bytes, limits] of HOSTILE) {
    verifies("pkg.unpack-safe", name, async () => {
      const refusal = await expectRefusal(bytes(), limits);
      expect(refusal.rule).toBe(rule);
      expect(refusal.message).toContain(`rule ${rule}`);
    });
  }
});

test("escapes control characters of an entry's name in the error", async () => {
  const { message } = await expectRefusal(tar(file("bin/\x1b[31mred")));
  expect(message).toContain('entry "bin/\\u001b[31mred"');
  expect(message).not.toContain("\x1b");
});

verifies(
  "pkg.unpack-safe",
  "refuses an archive with a million entries before most of them are read",
  async () => {
    let sent = 0;
    async function* sendMillionEntries(): AsyncGenerator<Uint8Array> {
      for (let index = 0; index < 1_000_000; index += 100) {
        sent = index;
        yield Buffer.concat(
          Array.from({ length: 100 }, (_, offset) =>
            entry({ name: `f${index + offset}`, type: offset % 10 === 0 ? "0" : "5" }),
          ),
        );
      }
    }
    const error: { code?: string; details?: { rule: string } } = await unpackArchive(
      sendMillionEntries(),
      join(folder, "tree"),
    ).then(
      () => ({}),
      (reason: object) => reason,
    );
    expect([error.code, error.details?.rule]).toEqual(["package.unsafe", "too-many-entries"]);
    expect(sent).toBeLessThan(25_000);
    expect(readdirSync(folder)).toEqual([]);
  },
  120_000,
);

test("passes on the error of a sender that fails, and leaves no files", async () => {
  async function* failAfterHeader(): AsyncGenerator<Uint8Array> {
    yield tar(good).subarray(0, 512);
    throw new Error("connection lost");
  }
  await expect(unpackArchive(failAfterHeader(), join(folder, "tree"))).rejects.toThrow("connection lost");
  expect(readdirSync(folder)).toEqual([]);
});
