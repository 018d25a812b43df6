import { setImmediate as waitForEventLoop } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { IdTable } from "../../src/values/id-table.ts";

describe("IdTable", () => {
  test("finds a value until it is deleted, in a long random sequence of operations", () => {
    const table = new IdTable<{ n: number }>();
    const model = new Map<string, { n: number }>();
    let seed = 7;
    for (let n = 0; n < 20_000; n++) {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      const id = `inv_${(seed >>> 8) % 300}`;
      if (!model.has(id)) {
        expect(table.has(id)).toBe(false);
        const value = { n };
        table.set(id, value);
        model.set(id, value);
      } else if (seed % 3 === 0) expect(table.get(id)).toBe(model.get(id));
      else {
        expect(table.delete(id)).toBe(model.get(id));
        model.delete(id);
      }
      expect(table.size).toBe(model.size);
    }
    expect(new Set(table.values())).toEqual(new Set(model.values()));
    table.clear();
    expect([table.size, table.values(), table.get("inv_1"), table.delete("inv_1")]).toEqual([
      0,
      [],
      undefined,
      undefined,
    ]);
  });

  test("replaces the value of an existing id, for any kind of id", () => {
    const table = new IdTable<{ n: number }, string | number>();
    table.set(1, { n: 1 });
    table.set("1", { n: 2 });
    table.set(1, { n: 3 });
    expect([table.size, table.ids(), table.values()]).toEqual([2, [1, "1"], [{ n: 3 }, { n: 2 }]]);
    expect(table.delete(1)).toEqual({ n: 3 });
    expect([table.has(1), table.values()]).toEqual([false, [{ n: 2 }]]);
  });

  test("releases deleted values without a full garbage collection", async () => {
    // V8 may be in the middle of a full collection, which keeps new values alive until it ends.
    let fewest_survivors = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < 3 && fewest_survivors >= 100; attempt++) {
      fewest_survivors = Math.min(fewest_survivors, await countSurvivors(new IdTable<object>()));
    }
    expect(fewest_survivors).toBeLessThan(100);
  });
});

interface Table {
  set(id: string, value: object): void;
  delete(id: string): unknown;
}

/** How many of 10,000 deleted values outlive young collections while 64 are always in flight. */
async function countSurvivors(table: Table): Promise<number> {
  setFlagsFromString("--expose-gc");
  // V8 may allocate the values in old space, which young collections do not scan.
  setFlagsFromString("--no-allocation-site-pretenuring");
  const collect = runInNewContext("gc") as (options: { type: "major" | "minor" }) => void;
  let next = 0;
  const refs: WeakRef<object>[] = [];
  const churn = (count: number): void => {
    for (const end = next + count; next < end; next++) {
      const value = { text: "x".repeat(10) };
      refs.push(new WeakRef(value));
      table.set(`req_${next}`, value);
      if (next >= 64) table.delete(`req_${next - 64}`);
    }
  };
  churn(1_000);
  await waitForEventLoop();
  // The current table is promoted to old space; it must not keep later tables alive.
  collect({ type: "major" });
  refs.length = 0;
  for (let round = 0; round < 100; round++) {
    churn(100);
    await waitForEventLoop();
  }
  for (let round = 0; round < 3; round++) {
    collect({ type: "minor" });
    await waitForEventLoop();
  }
  return refs.slice(0, -64).filter((ref) => ref.deref() !== undefined).length;
}
