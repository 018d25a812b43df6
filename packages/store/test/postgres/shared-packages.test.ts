/** The files of packages in PostgreSQL, where every node finds them. */
import { hash } from "node:crypto";
import type { SharedFile } from "@backplane/ports";
import { openPostgresStore, type PostgresStore } from "@backplane/store";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";

let server: TestPostgres;
let direct: pg.Client;
let nodes: [PostgresStore, PostgresStore];
let count = 0;

beforeAll(async () => {
  server = await startPostgres();
  nodes = [await openPostgresStore({ url: server.url }), await openPostgresStore({ url: server.url })];
  direct = new pg.Client({ connectionString: server.url });
  await direct.connect();
});
afterAll(async () => {
  await direct?.end();
  for (const node of nodes ?? []) await node.close();
  await server?.stop();
});

const CHUNK_BYTES = 256 * 1024;
const DAY = 86_400_000;

interface TestFile extends SharedFile {
  content: Buffer;
}

/** How often each content was read in order to store it. */
const reads = new Map<string, number>();

/** Reads in parts that are not aligned with the chunks of the store. */
function createFile(content: Buffer | string): TestFile {
  const bytes = Buffer.from(content);
  const sha256 = hash("sha256", bytes, "hex");
  return {
    content: bytes,
    sha256,
    bytes: bytes.length,
    async *read() {
      reads.set(sha256, (reads.get(sha256) ?? 0) + 1);
      for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
    },
  };
}

/** A package with these files and a listing of its own. */
function createPackage(...files: TestFile[]): { digest: string; files: TestFile[] } {
  const listing = createFile(`package ${++count} ${files.map(({ sha256 }) => sha256).join(" ")}`);
  return { digest: `sha256:${listing.sha256}`, files: [listing, ...files] };
}

const createUniqueFile = (length: number) => createFile(Buffer.alloc(length, `${++count} content `));

async function readBack(node: PostgresStore, files: readonly TestFile[]): Promise<(Buffer | null)[]> {
  const contents: (Buffer | null)[] = [];
  let parts: (Uint8Array | null)[] = [];
  for await (const { content, is_last } of node.shared_packages.read(files)) {
    parts.push(content);
    if (!is_last) continue;
    contents.push(parts.includes(null) ? null : Buffer.concat(parts as Uint8Array[]));
    parts = [];
  }
  return contents;
}

async function areStored(files: readonly TestFile[]): Promise<boolean[]> {
  const { rows } = await direct.query<{ sha256: string }>(
    "select sha256 from shared_files where sha256 = any($1)",
    [files.map(({ sha256 }) => sha256)],
  );
  return files.map(({ sha256 }) => rows.some((row) => row.sha256 === sha256));
}

const agePackage = (digest: string, ms: number) =>
  direct.query("update shared_packages set kept_at = kept_at - $2 where digest = $1", [digest, ms]);

async function insertPackageRow(digest: string): Promise<void> {
  const values = [`pkg_${++count}`, `acme/p${count}`, digest];
  await direct.query(
    "insert into packages (id, org_id, package_id, version, digest, body) values ($1, 'org', $2, '1.0.0', $3, '{}')",
    values,
  );
}

test("returns all bytes on another node, whatever the sizes of the files", async () => {
  const sizes = [1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * 1024 * 1024 + 5];
  const files = sizes.map(createUniqueFile);
  const small = Array.from({ length: 1_200 }, () => createUniqueFile(700));
  const stored = createPackage(...files, ...small);
  expect(await nodes[1].shared_packages.find(stored.digest)).toBeNull();
  await nodes[0].shared_packages.store(stored.digest, [...stored.files, createFile("")]);
  expect(await nodes[1].shared_packages.find(stored.digest)).toEqual({
    listing_bytes: stored.files[0]!.bytes,
  });
  const back = await readBack(nodes[1], stored.files);
  expect(back.every((content, index) => content!.equals(stored.files[index]!.content))).toBe(true);
  expect(back).toHaveLength(stored.files.length);
});

test("stores a file once for all packages that contain it, and reads a stored file only if it is damaged", async () => {
  const [small, large] = [createUniqueFile(5_000), createUniqueFile(CHUNK_BYTES * 3)];
  const [first, second] = [createPackage(small, large), createPackage(small, large)];
  await nodes[0].shared_packages.store(first.digest, first.files);
  reads.clear();
  await nodes[1].shared_packages.store(second.digest, second.files);
  expect([...reads.keys()]).toEqual([second.files[0]!.sha256]);
  for (const [damaged, chunk] of [
    [small, 0],
    [large, 2],
  ] as const) {
    await direct.query(
      "update shared_file_chunks set content = set_byte(content, 9, 255) where sha256 = $1 and chunk = $2",
      [damaged.sha256, chunk],
    );
    reads.clear();
    await nodes[1].shared_packages.store(second.digest, second.files);
    expect([...reads.keys()]).toEqual([damaged.sha256]);
    expect((await readBack(nodes[0], [damaged]))[0]!.equals(damaged.content)).toBe(true);
  }
  await direct.query("delete from shared_file_chunks where sha256 = $1 and chunk = 1", [large.sha256]);
  await nodes[0].shared_packages.store(first.digest, first.files);
  expect((await readBack(nodes[0], [large]))[0]!.equals(large.content)).toBe(true);
});

test("does not read a chunk with another length than the file requires", async () => {
  const [longer, shorter, missing] = [
    createUniqueFile(50),
    createUniqueFile(50),
    createUniqueFile(CHUNK_BYTES + 9),
  ];
  const { digest, files } = createPackage(longer, shorter, missing);
  await nodes[0].shared_packages.store(digest, files);
  await direct.query("update shared_file_chunks set content = content || '\\x00'::bytea where sha256 = $1", [
    longer.sha256,
  ]);
  await direct.query("update shared_file_chunks set content = '\\x00'::bytea where sha256 = $1", [
    shorter.sha256,
  ]);
  await direct.query("delete from shared_file_chunks where sha256 = $1 and chunk = 1", [missing.sha256]);
  expect(await readBack(nodes[1], [longer, shorter, missing])).toEqual([null, null, null]);
});

test("leaves a package absent when a file cannot be read, and stores it completely afterwards", async () => {
  const [before, broken] = [createUniqueFile(100), createUniqueFile(CHUNK_BYTES * 6)];
  const { digest, files } = createPackage(before, broken);
  const failing: SharedFile = {
    ...broken,
    async *read() {
      yield broken.content.subarray(0, CHUNK_BYTES * 5);
      throw new Error("the disk failed");
    },
  };
  const { shared_packages } = nodes[0];
  await expect(
    shared_packages.store(
      digest,
      files.map((file) => (file === broken ? failing : file)),
    ),
  ).rejects.toThrow();
  expect(await shared_packages.find(digest)).toBeNull();
  expect(await areStored([broken])).toEqual([false]);
  await shared_packages.store(digest, files);
  expect(await shared_packages.find(digest)).not.toBeNull();
  expect((await readBack(nodes[1], [broken]))[0]!.equals(broken.content)).toBe(true);
});

test("removes a package with its files, except those of another version", async () => {
  const [common, own] = [createUniqueFile(2_000), createUniqueFile(CHUNK_BYTES + 1)];
  const [first, second] = [createPackage(common, own), createPackage(common)];
  const { shared_packages } = nodes[0];
  for (const { digest, files } of [first, second]) {
    await shared_packages.store(digest, files);
    await shared_packages.release(digest);
  }
  await shared_packages.remove(first.digest);
  expect(await shared_packages.find(first.digest)).toBeNull();
  expect(await areStored([...first.files, ...second.files])).toEqual([false, true, false, true, true]);
  expect((await readBack(nodes[1], [common]))[0]!.equals(common.content)).toBe(true);
  await shared_packages.remove(first.digest);
  const chunks = await direct.query("select 1 from shared_file_chunks where sha256 = $1", [own.sha256]);
  expect(chunks.rowCount).toBe(0);
});

test("keeps a package that a row of any organization uses or that another node is installing", async () => {
  const [used, held] = [createPackage(createUniqueFile(10)), createPackage(createUniqueFile(10))];
  const [first, second] = nodes.map(({ shared_packages }) => shared_packages);
  for (const { digest, files } of [used, held]) await first!.store(digest, files);
  await insertPackageRow(used.digest);
  await first!.release(used.digest);
  for (const { digest } of [used, held]) {
    await agePackage(digest, 10 * DAY);
    await second!.remove(digest);
  }
  expect(await second!.sweep(DAY)).toBe(0);
  for (const { digest } of [used, held]) expect(await second!.find(digest)).not.toBeNull();
  // The protection ends by the clock of the database, because the node may have been killed.
  await direct.query("update shared_package_holds set expires_at = expires_at - $1", [DAY]);
  expect(await second!.sweep(20 * DAY)).toBe(0);
  expect(await second!.sweep(DAY)).toBe(1);
  expect(await second!.find(used.digest)).not.toBeNull();
  expect(await second!.find(held.digest)).toBeNull();
});

test("a removal waits for a node that is about to protect the package", async () => {
  const { digest, files } = createPackage(createUniqueFile(10));
  const { shared_packages } = nodes[1];
  await shared_packages.store(digest, files);
  await shared_packages.release(digest);
  await direct.query("begin");
  await direct.query(
    "insert into shared_package_holds (digest, holder, expires_at) values ($1, 'other', $2)",
    [digest, Date.now() + DAY],
  );
  const removed = shared_packages.remove(digest);
  const countWaitingLocks = async () => {
    const text = "select 1 from pg_locks where not granted";
    return (await direct.query(text)).rowCount;
  };
  await expect.poll(countWaitingLocks, { timeout: 60_000 }).toBeGreaterThan(0);
  await direct.query("commit");
  await removed;
  expect(await shared_packages.find(digest)).not.toBeNull();
}, 90_000);

test("sweeps files of unfinished packages an hour after they were stored", async () => {
  const [old, fresh] = [createUniqueFile(10), createUniqueFile(10)];
  for (const { sha256 } of [old, fresh]) {
    await direct.query(
      "insert into shared_files (sha256, kept_at) values ($1, (extract(epoch from now()) * 1000)::bigint)",
      [sha256],
    );
  }
  await direct.query("update shared_files set kept_at = kept_at - 3700000 where sha256 = $1", [old.sha256]);
  await nodes[1].shared_packages.sweep(DAY);
  expect(await areStored([old, fresh])).toEqual([false, true]);
});

test("stores a package while its files are being removed with another package", async () => {
  const files = Array.from({ length: 40 }, () => createUniqueFile(300));
  for (let round = 0; round < 15; round++) {
    const [old, next] = [createPackage(...files), createPackage(...files)];
    const [first, second] = nodes.map(({ shared_packages }) => shared_packages);
    await first!.store(old.digest, old.files);
    await first!.release(old.digest);
    await Promise.all([
      first!.remove(old.digest),
      second!.store(next.digest, next.files),
      first!.store(next.digest, next.files),
    ]);
    const back = await readBack(nodes[0], next.files);
    expect(back.every((content, index) => content?.equals(next.files[index]!.content))).toBe(true);
    for (const node of [first!, second!]) await node.release(next.digest);
    await second!.remove(next.digest);
    expect(await areStored(files)).toEqual(files.map(() => false));
  }
}, 60_000);

test("finds the used packages that the database lacks, and reports an unavailable database", async () => {
  const [stored, lacking, unused] = [
    createPackage(createUniqueFile(9)),
    createPackage(createUniqueFile(9)),
    createPackage(createUniqueFile(9)),
  ];
  await nodes[0].shared_packages.store(stored.digest, stored.files);
  for (const { digest } of [stored, lacking]) await insertPackageRow(digest);
  const digests = [stored, lacking, unused].map(({ digest }) => digest);
  expect(await nodes[1].shared_packages.findMissing(digests)).toEqual([lacking.digest]);
  const closed = await openPostgresStore({ url: server.url });
  await closed.close();
  const { shared_packages } = closed;
  for (const work of [
    () => shared_packages.find(stored.digest),
    () => shared_packages.store(stored.digest, stored.files),
    () => readBack(closed, stored.files),
  ])
    await expect(work()).rejects.toMatchObject({ code: "store.unavailable" });
});
