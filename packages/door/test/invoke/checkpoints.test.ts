/** Checkpoints of a harness whose call has ended or continues on another gateway. */
import type { JsonObject } from "@backplane/contract";
import { expect, test } from "vitest";
import type { LiveCall } from "../../src/calls/live-calls.ts";
import { createCheckpointWriter } from "../../src/invoke/checkpoints.ts";
import type { Door } from "../../src/invoke/door.ts";
import type { HarnessDeclaration } from "../../src/open/harness-input.ts";

const createCheckpoint = (n: number) => ({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: n } });
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A writer whose store refuses every checkpoint after the first `accepted`. */
function createWriter(accepted: number) {
  let saves = 0;
  const saveCheckpoint = async () => saves++ < accepted;
  const door = {
    deps: { store: { executions: { saveCheckpoint } }, log: { error: () => {} } },
    store_wait: { run: async (_what: string, work: () => Promise<unknown>) => await work() },
  } as unknown as Door;
  const live = {
    row: { id: "inv_1", fence: 1, execution_id: "exec_1" },
    lost: false,
    starts: 1,
    violations: 0,
  };
  const written: JsonObject[] = [];
  const harness = { harness: { fidelity: "checkpoint" } } as HarnessDeclaration;
  const writer = createCheckpointWriter(door, live as unknown as LiveCall, harness, (event) => {
    written.push(event as unknown as JsonObject);
  });
  return { live, writer, written, countSaves: () => saves };
}

test("ignores events after a checkpoint was refused because the call is lost, and does not block the gateway", async () => {
  const { live, writer, written, countSaves } = createWriter(1);
  writer.write(createCheckpoint(1));
  writer.write(createCheckpoint(2));
  writer.write({ type: "progress", message: "queued behind the refused checkpoint" });
  await writer.drained();
  expect(live.lost).toBe(true);
  writer.write({ type: "progress", message: "late" });
  writer.write(createCheckpoint(3));
  writer.write({ type: "progress", message: "later" });
  await writer.drained();
  await nextTurn();
  expect(written.map(({ type }) => type)).toEqual(["checkpoint"]);
  expect(countSaves()).toBe(2);
});

test("waits until every queued checkpoint is stored and the events behind it are written", async () => {
  const { writer, written } = createWriter(3);
  writer.write({ type: "progress", message: "first" });
  for (const n of [1, 2, 3]) {
    writer.write(createCheckpoint(n));
    writer.write({ type: "progress", message: `after ${n}` });
  }
  await writer.drained();
  expect(written.map(({ type, message }) => message ?? type)).toEqual([
    "first",
    "checkpoint",
    "after 1",
    "checkpoint",
    "after 2",
    "checkpoint",
    "after 3",
  ]);
});
