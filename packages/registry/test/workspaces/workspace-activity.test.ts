import type { WorkspaceActivity } from "@backplane/contract";
import type { Caller, ObservedOutput } from "@backplane/ports";
import { expect, test } from "vitest";
import { WorkspaceActivityQueue } from "../../src/workspaces/activity-queue.ts";
import { createWorkspaces, type WorkspacesDeps } from "../../src/workspaces/workspaces.ts";

const AT = "2026-01-01T00:00:00.000Z";

const caller = (admin: boolean): Caller => ({
  actor: admin ? "admin" : "key_1",
  scope: { org_id: "org_local", project_id: null },
  role: "owner",
  scopes: ["admin"],
  admin,
});

test("lets only the host's administrator watch a workspace, and reports an unknown workspace id", async () => {
  const { facade } = createWorkspaces({ deps: { clock: { now: () => 0 } } } as unknown as WorkspacesDeps);
  const watch = (admin: boolean) =>
    facade
      .streamActivity(caller(admin), "ws_none", new AbortController().signal)
      [Symbol.asyncIterator]()
      .next();
  await expect(watch(false)).rejects.toMatchObject({ code: "policy.denied" });
  await expect(watch(true)).rejects.toMatchObject({ code: "workspace.not_found" });
});

test("drops the oldest items of a slow reader and reports how many", async () => {
  const queue = new WorkspaceActivityQueue({}, () => AT);
  for (let number = 0; number < 1_003; number++)
    queue.push({ type: "frame", at: AT, from: "host", text: String(number) });
  const stop = new AbortController();
  const read: WorkspaceActivity[] = [];
  for await (const item of queue.items(stop.signal)) {
    read.push(item);
    if (read.length === 1_001) break;
  }
  expect(read.slice(0, 2)).toEqual([
    { type: "dropped", at: AT, count: 3 },
    { type: "frame", at: AT, from: "host", text: "3" },
  ]);
});

test("observes the bindings of the last load until it is closed", async () => {
  const observed: string[] = [];
  let emit: (output: ObservedOutput) => void = () => {};
  const observe = (ids: readonly string[], observer: typeof emit) => {
    observed.push(`start ${ids.join(" ")}`);
    emit = observer;
    return () => observed.push(`stop ${ids.join(" ")}`);
  };
  const queue = new WorkspaceActivityQueue({ observe: observe as never }, () => AT);
  queue.observe(["a"]);
  queue.observe(["a"]);
  queue.observe(["b", "a"]);
  emit({ binding_id: "b", at: AT, from: "plugin", kind: "stderr", text: "hello" });
  const stop = new AbortController();
  for await (const item of queue.items(stop.signal)) {
    expect(item).toEqual({ type: "stderr", at: AT, from: "plugin", text: "hello" });
    stop.abort();
  }
  queue.close();
  expect(observed).toEqual(["start a", "stop a", "start b a", "stop b a"]);
});
