import { expect, test } from "vitest";
import { crashError } from "../../src/calls/outcomes.ts";
import { createIdleWorker } from "../support/idle-worker.ts";

test("names the work during which the process was stopped: a call, or a request that is not a call", () => {
  const worker = createIdleWorker();
  Object.assign(worker.process, { exit: null, kill_reason: "it wrote too much" });
  expect(crashError(worker, "call")).toMatchObject({
    code: "crashed",
    message: "The plugin's process was stopped while this call ran: it wrote too much.",
    details: { reason: "it wrote too much" },
  });
  expect(crashError(worker, "request")?.message).toBe(
    "The plugin's process was stopped while this request ran: it wrote too much.",
  );
});
