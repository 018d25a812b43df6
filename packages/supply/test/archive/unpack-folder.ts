/** A folder per test to unpack into. A test file calls `useUnpackFolder` once. */

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, beforeEach, expect } from "vitest";
import { UNPACK_LIMITS, unpackArchive } from "../../src/index.ts";
import { inChunks } from "../support/tar-bytes.ts";

let base = "";
let count = 0;
/** Where the current test unpacks to. It is empty at first. */
export let folder = "";

export function nextFolder(): void {
  folder = join(base, String(count++));
  mkdirSync(folder);
}

export function useUnpackFolder(): void {
  beforeAll(() => {
    base = createMemoryFolder("backplane-unpack-");
  });
  beforeEach(nextFolder);
  afterAll(() => rmSync(base, { recursive: true, force: true }));
}

export const unpack = (bytes: Uint8Array, limits = UNPACK_LIMITS, chunk_size?: number) =>
  unpackArchive(inChunks(bytes, chunk_size), join(folder, "tree"), limits);

/** Expects a refusal that leaves no files, and returns its rule and message. */
export async function expectRefusal(
  bytes: Uint8Array,
  limits = UNPACK_LIMITS,
): Promise<{ rule: string; message: string }> {
  const error = await unpack(bytes, limits).then(
    () => null,
    (reason: { code: string; message: string; details: { rule: string } }) => reason,
  );
  expect(error?.code).toBe("package.unsafe");
  expect(readdirSync(folder), "no files are left").toEqual([]);
  return { rule: error?.details.rule ?? "", message: error?.message ?? "" };
}

/** Limits that a test reaches quickly. */
export const SMALL_LIMITS = {
  ...UNPACK_LIMITS,
  unpacked_bytes: 64 * 1024,
  file_bytes: 16 * 1024,
  entries: 50,
};
