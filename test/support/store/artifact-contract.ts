/** The test cases of every store of artifacts. */

import { hash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { Readable } from "node:stream";
import type { ArtifactFiles } from "@backplane/ports";
import { expect, test } from "vitest";

export interface ArtifactSubject {
  files: ArtifactFiles;
  /** Makes a stored artifact look as old as `ms`, without the store's API. */
  age: (sha256: string, ms: number) => Promise<void> | void;
  /** Replaces the stored bytes with others of the same length, without the store's API. */
  change: (sha256: string) => Promise<void> | void;
}

const HOUR = 3_600_000;
let created = 0;

/** Bytes that are unique to one case; the default length spans several chunks. */
export function createUniqueBytes(length = 600_000): { bytes: Buffer; sha256: string } {
  const bytes = Buffer.alloc(length, `artifact ${process.pid} ${created++} `);
  return { bytes, sha256: hash("sha256", bytes, "hex") };
}

export async function readAll(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of content) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The descriptors of this process that lead to a file with this name. */
function listOpenFiles(name: string): string[] {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).includes(name);
    } catch {
      // It was closed in the meantime.
      return false;
    }
  });
}

export function artifactContract(subject: () => ArtifactSubject): void {
  test("returns all stored bytes, even if they were stored repeatedly and concurrently", async () => {
    const { files } = subject();
    for (const length of [1, 256 * 1024, 256 * 1024 + 1, 600_000]) {
      const { bytes, sha256 } = createUniqueBytes(length);
      await Promise.all(Array.from({ length: 5 }, () => files.store(sha256, bytes)));
      await files.store(sha256, bytes);
      const stored = await files.open(sha256);
      expect(stored?.bytes).toBe(length);
      expect((await readAll(stored!.content)).equals(bytes)).toBe(true);
    }
    const empty_sha256 = hash("sha256", "", "hex");
    await files.store(empty_sha256, Buffer.alloc(0));
    const stored = await files.open(empty_sha256);
    expect([stored?.bytes, await readAll(stored!.content)]).toEqual([0, Buffer.alloc(0)]);
  });

  test("reads in small chunks", async () => {
    const { bytes, sha256 } = createUniqueBytes(3_000_000);
    await subject().files.store(sha256, bytes);
    const stored = await subject().files.open(sha256);
    for await (const chunk of stored!.content) expect(chunk.length).toBeLessThanOrEqual(256 * 1024);
  });

  test("refuses to open a missing or changed artifact, and to open or store one under an invalid hash", async () => {
    const { files, change } = subject();
    const { bytes, sha256 } = createUniqueBytes();
    await files.store(sha256, bytes);
    await change(sha256);
    for (const name of [sha256, "0".repeat(64), "../tmp", ""]) expect(await files.open(name)).toBeNull();
    for (const name of ["../x", "", sha256.toUpperCase()])
      await expect(files.store(name, bytes)).rejects.toMatchObject({ code: "internal" });
  });

  test("sweeps only artifacts that were last stored before the limit", async () => {
    const { files, age } = subject();
    const old = Array.from({ length: 25 }, () => createUniqueBytes(300));
    const [again, young] = [createUniqueBytes(), createUniqueBytes()];
    for (const { bytes, sha256 } of [...old, again, young]) await files.store(sha256, bytes);
    for (const { sha256 } of [...old, again]) await age(sha256, 2 * HOUR);
    // Storing it again renews its age.
    await files.store(again.sha256, again.bytes);
    expect(await files.sweep(HOUR)).toBe(old.length);
    for (const { sha256 } of old) expect(await files.open(sha256)).toBeNull();
    for (const { bytes, sha256 } of [again, young]) {
      const stored = await files.open(sha256);
      expect((await readAll(stored!.content)).equals(bytes)).toBe(true);
    }
    // A swept artifact can be stored again.
    await files.store(old[0]!.sha256, old[0]!.bytes);
    const stored = await files.open(old[0]!.sha256);
    expect((await readAll(stored!.content)).length).toBe(300);
  });

  test("closes the file if a reader stops, whether it has read a chunk or not", async () => {
    const { files } = subject();
    const { bytes, sha256 } = createUniqueBytes(600_000);
    await files.store(sha256, bytes);
    const open_before = listOpenFiles(sha256);
    const unread = await files.open(sha256);
    const unreadStream = Readable.from(unread!.content);
    unreadStream.destroy();
    await once(unreadStream, "close");
    const partly_read = await files.open(sha256);
    for await (const chunk of partly_read!.content) {
      expect(chunk.length).toBeGreaterThan(0);
      break;
    }
    expect(listOpenFiles(sha256)).toEqual(open_before);
  });
}
