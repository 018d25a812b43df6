/** Many more mutated archives than in the fast suite: no crash, no unexpected error, no files left behind. */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { unpackArchive } from "@backplane/supply";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { inChunks, pax, tar } from "../../../packages/supply/test/support/tar-bytes.ts";

const folder = createMemoryFolder("backplane-mutations-");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const plain = tar(
  { name: "bin/", type: "5", mode: 0o755 },
  { name: "bin/run", mode: 0o755, body: Buffer.alloc(700, "r") },
  pax({ path: "p/long" }),
  { name: "x", body: "x" },
  { name: "L", type: "L", magic: "ustar  \0", body: "long/name\0" },
  { name: "y", magic: "ustar  \0", body: "y" },
);
const edit = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) });

test("unpacks or refuses 20,000 mutated archives without leaving files", async () => {
  const rejections: unknown[] = [];
  const recordRejection = (reason: unknown) => void rejections.push(reason);
  process.on("unhandledRejection", recordRejection);
  const target = join(folder, "work", "tree");
  mkdirSync(join(folder, "work"));
  await fc.assert(
    fc.asyncProperty(
      fc.array(edit, { minLength: 1, maxLength: 6 }),
      fc.boolean(),
      fc.option(fc.nat(), { freq: 4 }),
      fc.integer({ min: 1, max: 5_000 }),
      async (edits, zipped, kept_length, chunk_size) => {
        let bytes = Buffer.from(plain);
        for (const { at, byte } of edits) bytes[at % bytes.length] = byte;
        if (zipped) bytes = gzipSync(bytes, { level: 1 });
        if (kept_length !== null) bytes = bytes.subarray(0, kept_length % bytes.length);
        const code = await unpackArchive(inChunks(bytes, chunk_size), target).then(
          () => "ok",
          (error: { code?: string }) => error.code,
        );
        expect(["ok", "package.unsafe"]).toContain(code);
        expect(readdirSync(join(folder, "work"))).toEqual(code === "ok" ? ["tree"] : []);
        rmSync(target, { recursive: true, force: true });
      },
    ),
    { numRuns: 20_000 },
  );
  process.off("unhandledRejection", recordRejection);
  expect(rejections).toEqual([]);
});
