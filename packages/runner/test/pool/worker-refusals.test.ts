import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import type { Refusal } from "../../src/egress/destinations/refusals.ts";
import type { ActiveCall } from "../../src/pool/worker.ts";
import { WorkerRefusals } from "../../src/pool/worker-refusals.ts";
import { createActiveCall } from "../support/idle-worker.ts";

const SUBJECT = { pool_key: "p", binding_id: "bind_1", package_id: "acme/x", digest: "d" };
const createRefusal = (host: string): Refusal => ({ host, port: 443, reason: "domain.not_allowed", at: 0 });

test("marks a refusal between calls as shared if the process has already served a call", () => {
  const calls: ActiveCall[] = [];
  const refusals = new WorkerRefusals(
    calls,
    [],
    SUBJECT,
    createTestLogger(() => {}),
  );
  const join = (call: ActiveCall) => {
    calls.push(call);
    refusals.assignEarly(call);
  };
  refusals.add(createRefusal("at-start.test"));
  const first = createActiveCall("inv_1");
  join(first);
  refusals.add(createRefusal("during.test"));
  calls.pop();
  // This refusal may belong to the first call, whose code may continue after its answer.
  refusals.add(createRefusal("between.test"));
  const second = createActiveCall("inv_2");
  join(second);
  expect(first.refusals).toEqual(["at-start.test false", "during.test false"]);
  expect(second.refusals).toEqual(["between.test true"]);
});
