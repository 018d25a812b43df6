/**
 * Compares our zip reader with yauzl on thousands of generated archives. Archives that both accept must have the same
 * names and content, our reader must refuse each archive that yauzl refuses, and each archive that only our reader
 * refuses must break a rule of docs/decisions/0021-own-archive-guards.md.
 */
import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { fromBufferPromise } from "yauzl";
import { readZip } from "../../src/archive/read-zip.ts";
import { unsafe } from "../../src/archive/unsafe.ts";
import { UNPACK_LIMITS } from "../../src/index.ts";
import { type ZipEnd, type ZipPart, zip } from "../support/zip-bytes.ts";

type Outcome = { files: Map<string, string> } | { refused: string };

const DECISION = readFileSync("docs/decisions/0021-own-archive-guards.md", "utf8");
const STRICTER = new Set([...DECISION.matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(([, rule]) => rule as string));

async function readOurs(bytes: Buffer): Promise<Outcome> {
  const files = new Map<string, string>();
  const readAt = async (offset: number, length: number) => {
    if (offset + length > bytes.length) throw unsafe("truncated", "it is truncated");
    return bytes.subarray(offset, offset + length);
  };
  try {
    for await (const { path, content } of readZip(bytes.length, readAt, UNPACK_LIMITS)) {
      files.set(path, content.toString("hex"));
    }
    return { files };
  } catch (error) {
    const { code, details } = error as { code?: string; details?: { rule: string } };
    if (code !== "package.unsafe") throw error;
    return { refused: details?.rule ?? "" };
  }
}

async function readTheirs(bytes: Buffer): Promise<Outcome> {
  const files = new Map<string, string>();
  try {
    const archive = await fromBufferPromise(bytes);
    for await (const entry of archive.eachEntry()) {
      // yauzl reads the local header and the data of a folder only on request.
      const content = await buffer(await archive.openReadStreamPromise(entry));
      if (entry.fileName.endsWith("/")) continue;
      files.set(entry.fileName.replace(/^\.\//, ""), content.toString("hex"));
    }
    return { files };
  } catch (error) {
    return { refused: (error as Error).message };
  }
}

const NAMES = ["a", "b.txt", "dir/c", "dir/deep/d", "ü.txt", "./e", "dir/", "other/", "f g", "h.class"];
const UNSAFE_NAMES = [
  "",
  "../x",
  "a/../b",
  "/abs",
  "a\\b",
  "C:x",
  "a\0b",
  "aux",
  "x.",
  ".wh.q",
  "A",
  "a//b",
  "a:b",
  "\u202ex",
];

const extra = fc
  .record({ id: fc.constantFrom(0x0001, 0x7075, 0x5455, 0xcafe), length: fc.nat(12), missing: fc.nat(3) })
  .map(({ id, length, missing }) => {
    const field = Buffer.alloc(4 + length, 7);
    field.writeUInt16LE(id, 0);
    field.writeUInt16LE(length, 2);
    // At most one field in four is shorter than its stated length.
    return missing === 3 ? field.subarray(0, field.length - Math.min(1, length)) : field;
  });
const uint32 = fc.oneof(fc.nat(64), fc.constantFrom(0xffffffff, 0x7fffffff));
/** Present in one of forty cases. */
const rarely = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 39, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
const compact = (record: object) =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));

const part: fc.Arbitrary<ZipPart> = fc
  .record({
    name: fc.oneof(
      { weight: 30, arbitrary: fc.constantFrom(...NAMES) },
      { weight: 1, arbitrary: fc.constantFrom(...UNSAFE_NAMES) },
    ),
    body: fc.oneof(
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      fc.constant(Buffer.alloc(0)),
      fc.nat(2_000).map((length) => Buffer.alloc(length, "z")),
    ),
    method: fc.constantFrom(0, 8, 8),
    descriptor: fc.boolean(),
    mode: fc.constantFrom(undefined, 0o100644, 0o100755, 0o100600),
    special_mode: rarely(fc.constantFrom(0o120777, 0o020666, 0o104755, 0o040755, 0)),
    flags: rarely(fc.constantFrom(0, 1, 0x08, 0x20, 0x41, 0x800, 0x2000, 0xffff)),
    other_method: rarely(fc.constantFrom(0, 1, 8, 9, 12, 99)),
    crc: rarely(uint32),
    size: rarely(uint32),
    packed: rarely(uint32),
    offset: rarely(uint32),
    extra: rarely(extra),
    disk: rarely(fc.constantFrom(1, 0xffff)),
    data: rarely(
      fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        fc.constant(Buffer.concat([deflateRawSync(Buffer.from("x")), Buffer.from("tail")])),
      ),
    ),
    after: rarely(fc.constant(Buffer.from("hidden"))),
    local: rarely(
      fc
        .record({
          name: rarely(fc.constantFrom("a", "zz")),
          flags: rarely(fc.constantFrom(0, 8)),
          method: rarely(fc.constantFrom(0, 8)),
          size: rarely(uint32),
          packed: rarely(uint32),
          extra: fc.oneof(extra, fc.constant(undefined)),
        })
        .map(compact),
    ),
  })
  .map(({ special_mode, other_method, mode, method, name, body, ...rest }) => {
    const folder = name.endsWith("/");
    return compact({
      ...rest,
      name,
      body: folder ? undefined : body,
      method: other_method ?? method,
      mode: special_mode ?? (folder ? undefined : mode),
    });
  });

const end: fc.Arbitrary<ZipEnd> = fc
  .record({
    count: rarely(fc.constantFrom(0, 1, 5, 0xffff)),
    entries_on_disk: rarely(fc.constantFrom(0, 1)),
    disk: rarely(fc.constantFrom(1, 0xffff)),
    size: rarely(uint32),
    offset: rarely(uint32),
    comment: rarely(fc.constantFrom(Buffer.from("a comment"), zip([]).subarray(-22))),
    before: rarely(fc.constant(Buffer.from("#!/bin/sh\n"))),
    between: rarely(fc.constant(Buffer.from("hidden"))),
    gap: rarely(fc.constant(Buffer.from("hidden"))),
  })
  .map(compact);

const archive = fc
  .record({
    parts: fc.uniqueArray(part, { maxLength: 5, selector: ({ name }) => name }),
    repeated: rarely(part),
    end,
    edits: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 3 }) },
    ),
    removed_bytes: rarely(fc.nat(40)),
  })
  .map(({ parts, repeated, end: last, edits, removed_bytes }) => {
    const bytes = zip(repeated === undefined ? parts : [...parts, repeated], last);
    for (const [at, value] of edits) bytes[at % bytes.length] = value;
    return removed_bytes === undefined ? bytes : bytes.subarray(0, bytes.length - removed_bytes);
  });

test("reads the same names and content as yauzl, and refuses more only by documented rules", async () => {
  const tally = { both: 0, ours: new Map<string, number>(), theirs: [] as string[] };
  await fc.assert(
    fc.asyncProperty(archive, async (bytes) => {
      const [ours, theirs] = await Promise.all([readOurs(bytes), readTheirs(bytes)]);
      if ("files" in ours && "files" in theirs) {
        expect(ours.files).toEqual(theirs.files);
        if (ours.files.size > 0) tally.both++;
      } else if ("refused" in ours && "files" in theirs) {
        tally.ours.set(ours.refused, (tally.ours.get(ours.refused) ?? 0) + 1);
      } else if ("files" in ours && "refused" in theirs) tally.theirs.push(theirs.refused);
    }),
    { numRuns: 4_000, seed: 17 },
  );
  expect([...tally.ours.keys()].filter((rule) => !STRICTER.has(rule))).toEqual([]);
  expect(tally.theirs).toEqual([]);
  // Enough of the archives are valid for the comparison to mean something.
  expect(tally.both).toBeGreaterThan(500);
}, 120_000);
