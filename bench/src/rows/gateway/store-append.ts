/** Durable invocation rows/s with 100 concurrent writers, compared with bare node:sqlite in transactions of 100 rows. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "@backplane/store";
import { createInvocationRow } from "../../fixtures/invocation-row.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const WRITERS = 100;
const ROWS = 20_000;
const REPETITIONS = 5;

export async function measureStoreAppend(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-store-"));
  const store = await openSqliteStore({ file: join(folder, "ours.db") });
  const bare = createBareStore(join(folder, "bare.db"));
  let next = 0;
  try {
    const measureStore = async () => {
      let remaining = ROWS;
      const writer = async () => {
        while (remaining-- > 0) await store.invocations.open(createInvocationRow(next++), { records: {} });
      };
      const from = performance.now();
      await Promise.all(Array.from({ length: WRITERS }, writer));
      return (ROWS / (performance.now() - from)) * 1000;
    };
    const measureBare = () => {
      const from = performance.now();
      for (let done = 0; done < ROWS; done += WRITERS) {
        bare.insertGroup(next, WRITERS);
        next += WRITERS;
      }
      return (ROWS / (performance.now() - from)) * 1000;
    };
    await measureStore();
    measureBare();
    const ours: number[] = [];
    const limit: number[] = [];
    for (let repetition = 0; repetition < REPETITIONS; repetition++) {
      ours.push(await measureStore());
      limit.push(measureBare());
    }
    return [createRow("store.append", "durable rows/s, 100 writers", "higher", median(ours), median(limit))];
  } finally {
    await store.close();
    bare.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Stores the same bytes in the smallest possible table: a key and a text. */
function createBareStore(file: string) {
  const db = new DatabaseSync(file);
  db.exec("pragma journal_mode = wal; pragma synchronous = full");
  db.exec("create table rows (id text primary key, body text)");
  const insert = db.prepare("insert into rows values (?, ?)");
  return {
    insertGroup(from: number, count: number) {
      db.exec("begin immediate");
      for (let i = from; i < from + count; i++) {
        const invocation = createInvocationRow(i);
        insert.run(invocation.id, JSON.stringify(invocation));
      }
      db.exec("commit");
    },
    close: () => db.close(),
  };
}
