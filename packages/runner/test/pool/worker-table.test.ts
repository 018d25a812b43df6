import { expect, test } from "vitest";
import { Roster } from "../../src/pool/worker-table.ts";
import { standingWorker, tenant } from "../support/idle-worker.ts";

test("a key leads to its newest process until that one is dropped; all are known until they are gone", () => {
  const roster = new Roster();
  const [old, young] = [standingWorker({ pid: 1 }), standingWorker({ pid: 2 })];
  roster.add(old, null);
  roster.add(young, null);
  expect(roster.find("key")).toBe(young);
  // What was the key's before takes nothing from who has it now.
  roster.drop(old);
  roster.remove(old, null);
  expect([roster.offers(old), roster.offers(young), roster.find("key")]).toEqual([false, true, young]);
  roster.drop(young);
  expect([roster.find("key"), roster.size, [...roster.all]]).toEqual([undefined, 1, [young]]);
  roster.remove(young, null);
  expect([...roster.all]).toEqual([]);
});

test("one-call processes are found by nobody, and what was never born does not count", () => {
  const roster = new Roster();
  roster.add(standingWorker({ pooled: false, pid: 1 }), null);
  roster.add(standingWorker({ key: "unborn", state: "launching" }), null);
  expect([roster.find("key"), roster.size]).toEqual([undefined, 1]);
});

test("a folder is its newest keeper's, and free when that one is gone", () => {
  const roster = new Roster();
  const [old, young] = [standingWorker({ key: "a" }), standingWorker({ key: "b" })];
  roster.add(old, "bind_1/proj");
  roster.add(young, "bind_1/proj");
  roster.remove(old, "bind_1/proj");
  expect(roster.keeper("bind_1/proj")).toBe(young);
  roster.remove(young, "bind_1/proj");
  expect(roster.keeper("bind_1/proj")).toBeUndefined();
});

test("those that are meant lose their keys, the others keep them", () => {
  const roster = new Roster();
  const workers = ["a", "b", "c"].map((key) =>
    standingWorker({ key, binding_id: key === "c" ? "other" : "bind_1" }),
  );
  for (const worker of workers) roster.add(worker, null);
  const dropped = roster.dropWhere(({ subject, key }) => subject.binding_id === "bind_1" && key !== "b");
  expect(dropped).toEqual([workers[0]]);
  expect(["a", "b", "c"].map((key) => roster.find(key) !== undefined)).toEqual([false, true, true]);
  roster.dropAll();
  expect([roster.find("b"), [...roster.all].length]).toEqual([undefined, 3]);
});

test("the longest idle is the one with the earliest rest; who is busy or lost its key is not asked", () => {
  const roster = new Roster();
  expect(roster.longestIdle()).toBeUndefined();
  const [late, early, busy, dropped] = [5, 3, 1, 0].map((idle_since) =>
    standingWorker({ key: `k${idle_since}`, idle_since }),
  );
  for (const worker of [late, early, busy, dropped]) roster.add(worker!, null);
  busy!.enter(tenant("a"));
  roster.drop(dropped!);
  expect(roster.longestIdle()).toBe(early);
});
