import { expect, test } from "vitest";
import { WorkerTable } from "../../src/pool/worker-table.ts";
import { createActiveCall, createIdleWorker } from "../support/idle-worker.ts";

test("finds the newest worker of a key until it is withdrawn, and lists all until they are removed", () => {
  const workers = new WorkerTable();
  const [old, young] = [createIdleWorker({ pid: 1 }), createIdleWorker({ pid: 2 })];
  workers.add(old, null);
  workers.add(young, null);
  expect(workers.find("key")).toBe(young);
  // Withdrawing the old worker does not affect the new one of the same key.
  workers.withdraw(old);
  workers.remove(old, null);
  expect([workers.isAvailable(old), workers.isAvailable(young), workers.find("key")]).toEqual([
    false,
    true,
    young,
  ]);
  workers.withdraw(young);
  expect([workers.find("key"), workers.size, [...workers.all]]).toEqual([undefined, 1, [young]]);
  workers.remove(young, null);
  expect([...workers.all]).toEqual([]);
});

test("does not find one-call workers by key, and counts only spawned processes", () => {
  const workers = new WorkerTable();
  workers.add(createIdleWorker({ pooled: false, pid: 1 }), null);
  workers.add(createIdleWorker({ key: "starting", state: "launching" }), null);
  expect([workers.find("key"), workers.size]).toEqual([undefined, 1]);
});

test("assigns a folder to its newest worker until that worker is removed", () => {
  const workers = new WorkerTable();
  const [old, young] = [createIdleWorker({ key: "a" }), createIdleWorker({ key: "b" })];
  workers.add(old, "bind_1/proj");
  workers.add(young, "bind_1/proj");
  workers.remove(old, "bind_1/proj");
  expect(workers.findFolderOwner("bind_1/proj")).toBe(young);
  workers.remove(young, "bind_1/proj");
  expect(workers.findFolderOwner("bind_1/proj")).toBeUndefined();
});

test("withdraws only matching workers", () => {
  const workers = new WorkerTable();
  const added = ["a", "b", "c"].map((key) =>
    createIdleWorker({ key, binding_id: key === "c" ? "other" : "bind_1" }),
  );
  for (const worker of added) workers.add(worker, null);
  const dropped = workers.withdrawWhere(({ subject, key }) => subject.binding_id === "bind_1" && key !== "b");
  expect(dropped).toEqual([added[0]]);
  expect(["a", "b", "c"].map((key) => workers.find(key) !== undefined)).toEqual([false, true, true]);
  workers.withdrawAll();
  expect([workers.find("b"), [...workers.all].length]).toEqual([undefined, 3]);
});

test("finds the worker that has been idle the longest, ignoring busy and withdrawn ones", () => {
  const workers = new WorkerTable();
  expect(workers.findLongestIdle()).toBeUndefined();
  const [newest, oldest, busy, withdrawn] = [5, 3, 1, 0].map((idle_since) =>
    createIdleWorker({ key: `k${idle_since}`, idle_since }),
  );
  for (const worker of [newest, oldest, busy, withdrawn]) workers.add(worker!, null);
  busy!.startCall(createActiveCall("a"));
  workers.withdraw(withdrawn!);
  expect(workers.findLongestIdle()).toBe(oldest);
});
