import { hash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openArtifactStore } from "../src/index.ts";

const BYTES = Buffer.alloc(600_000, "artifact ");
const SHA256 = hash("sha256", BYTES, "hex");
const HOUR = 3_600_000;

function open() {
  const dir = mkdtempSync(join(tmpdir(), "backplane-artifacts-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return { store: openArtifactStore(dir), file: (sha256: string) => join(dir, "artifacts", sha256), dir };
}

async function readAll(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of content) pieces.push(piece);
  return Buffer.concat(pieces);
}

test("what was kept comes back, for nobody else on this machine to read", async () => {
  const { store, file, dir } = open();
  await store.keep(SHA256, BYTES);
  await store.keep(SHA256, BYTES);
  const kept = await store.open(SHA256);
  expect(kept?.bytes).toBe(BYTES.length);
  expect(await readAll(kept!.content)).toEqual(BYTES);
  expect(statSync(file(SHA256)).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(dir, "artifacts", "tmp"))).toEqual([]);
});

test("what is not there, was changed or is no hash is not given", async () => {
  const { store, file } = open();
  await store.keep(SHA256, BYTES);
  writeFileSync(file(SHA256), "changed");
  for (const name of [SHA256, "0".repeat(64), "../tmp", ""]) expect(await store.open(name)).toBeNull();
  await expect(store.keep("../x", BYTES)).rejects.toMatchObject({ code: "internal" });
});

test("a sweep takes what was last kept too long ago, and nothing else", async () => {
  const { store, file } = open();
  const other = hash("sha256", "other", "hex");
  await store.keep(SHA256, BYTES);
  await store.keep(other, Buffer.from("other"));
  const before = new Date(Date.now() - 2 * HOUR);
  for (const name of [SHA256, other]) utimesSync(file(name), before, before);
  // Handed over once more: it is young again.
  await store.keep(other, Buffer.from("other"));
  expect(await store.sweep(HOUR)).toBe(1);
  expect(await store.open(SHA256)).toBeNull();
  const kept = await store.open(other);
  expect((await readAll(kept!.content)).toString()).toBe("other");
});
