/** Artifacts in PostgreSQL, where every node finds them. */
import { openPostgresStore, type PostgresStore } from "@backplane/store";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type ArtifactSubject,
  artifactContract,
  createUniqueBytes,
  readAll,
} from "../../../../test/support/store/artifact-contract.ts";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";

let server: TestPostgres;
let direct: pg.Client;
let nodes: PostgresStore[];
let subject: ArtifactSubject;

beforeAll(async () => {
  server = await startPostgres();
  nodes = [await openPostgresStore({ url: server.url }), await openPostgresStore({ url: server.url })];
  direct = new pg.Client({ connectionString: server.url });
  await direct.connect();
  const execute = async (text: string, values: unknown[]) => void (await direct.query(text, values));
  subject = {
    files: nodes[0]!.artifacts,
    age: (sha256, ms) =>
      execute("update artifacts set kept_at = kept_at - $2 where sha256 = $1", [sha256, ms]),
    change: (sha256) =>
      execute(
        "update artifact_pieces set content = set_byte(content, 0, 255) where sha256 = $1 and piece = 1",
        [sha256],
      ),
  };
});
afterAll(async () => {
  await direct?.end();
  for (const node of nodes ?? []) await node.close();
  await server?.stop();
});

artifactContract(() => subject);

const countRows = async (table: string, sha256: string) =>
  (await direct.query(`select 1 from ${table} where sha256 = $1`, [sha256])).rowCount;

test("serves and removes artifacts that another node stored", async () => {
  const { bytes, sha256 } = createUniqueBytes();
  const [first, second] = nodes.map(({ artifacts }) => artifacts);
  await first!.store(sha256, bytes);
  const artifact = await second!.open(sha256);
  expect((await readAll(artifact!.content)).equals(bytes)).toBe(true);
  await subject.age(sha256, 10_000_000);
  const swept = await Promise.all([first!.sweep(9_000_000), second!.sweep(9_000_000)]);
  expect(swept[0]! + swept[1]!).toBe(1);
  expect([await countRows("artifacts", sha256), await countRows("artifact_pieces", sha256)]).toEqual([0, 0]);
});

test("does not open an artifact whose chunks have fewer or more bytes than recorded", async () => {
  const [short, long] = [createUniqueBytes(), createUniqueBytes()];
  for (const { bytes, sha256 } of [short, long]) await subject.files.store(sha256, bytes);
  await direct.query("delete from artifact_pieces where sha256 = $1 and piece = 2", [short.sha256]);
  await direct.query("update artifacts set bytes = bytes - 1 where sha256 = $1", [long.sha256]);
  for (const { sha256 } of [short, long]) expect(await subject.files.open(sha256)).toBeNull();
});

test("fails a read when the artifact is changed or removed meanwhile", async () => {
  const changes: ((sha256: string) => unknown)[] = [
    subject.change,
    (sha256) => direct.query("delete from artifacts where sha256 = $1", [sha256]),
  ];
  for (const applyChange of changes) {
    const { bytes, sha256 } = createUniqueBytes();
    await subject.files.store(sha256, bytes);
    const { content } = (await subject.files.open(sha256))!;
    const reader = content[Symbol.asyncIterator]();
    expect((await reader.next()).done).toBe(false);
    await applyChange(sha256);
    const rest = (async () => {
      while ((await reader.next()).done !== true);
    })();
    await expect(rest).rejects.toMatchObject({ code: "artifact.not_found" });
  }
});

test("stores no part of an artifact if a write fails, and reports an unavailable database", async () => {
  const { bytes, sha256 } = createUniqueBytes();
  await direct.query("alter table artifact_pieces add constraint full_disk check (piece < 2) not valid");
  try {
    await expect(subject.files.store(sha256, bytes)).rejects.toThrow();
    expect([await countRows("artifacts", sha256), await countRows("artifact_pieces", sha256)]).toEqual([
      0, 0,
    ]);
  } finally {
    await direct.query("alter table artifact_pieces drop constraint full_disk");
  }
  const closed_store = await openPostgresStore({ url: server.url });
  await closed_store.close();
  await expect(closed_store.artifacts.open(sha256)).rejects.toMatchObject({ code: "store.unavailable" });
});
