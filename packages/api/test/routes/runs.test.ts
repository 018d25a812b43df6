import { BackplaneError, type Run } from "@backplane/contract";
import type { Kernel } from "@backplane/ports";
import { expect, onTestFinished, test } from "vitest";
import { startApi } from "../support/start-api.ts";

test("closes the watch of a run whose row cannot be read a second time", async () => {
  let reads = 0;
  let watches = 0;
  const run = { session_id: "s1", workspace: "default", first_entry_id: 1, status: "running" } as Run;
  const wrap = (kernel: Kernel): Kernel => ({
    ...kernel,
    runs: {
      ...kernel.runs,
      async get() {
        if (++reads > 1) throw new BackplaneError("store.unavailable");
        return run;
      },
    },
    fanout: {
      ...kernel.fanout,
      heartbeat_ms: 60_000,
      async attach() {
        watches++;
        return { heartbeat() {}, detach: () => void watches-- } as never;
      },
    },
  });
  const api = await startApi({ wrap });
  onTestFinished(() => api.close());
  expect((await api.call("GET", "/v1/runs/run_1/events")).json.error.code).toBe("store.unavailable");
  expect([reads, watches]).toEqual([2, 0]);
});
