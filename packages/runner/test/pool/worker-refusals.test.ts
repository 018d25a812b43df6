import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import { CallRefusals } from "../../src/calls/call-record.ts";
import type { Refusal } from "../../src/egress/destinations/refusals.ts";
import type { ActiveCall } from "../../src/pool/worker.ts";
import { WorkerRefusals } from "../../src/pool/worker-refusals.ts";
import { createActiveCall } from "../support/idle-worker.ts";

const SUBJECT = { pool_key: "p", binding_id: "bind_1", package_id: "acme/x", digest: "d" };
const createRefusal = (host: string, detail?: string): Refusal => ({
  host,
  port: 443,
  reason: "domain.not_allowed",
  ...(detail === undefined ? {} : { detail }),
  at: 0,
});

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
    refusals.callStarted(call);
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

test("redacts tokens from a record, including those of other calls on the same process", () => {
  const refusals = new CallRefusals();
  refusals.add(createRefusal("vai_dlg_abc.evil.test", "GET /?t=vai_dlg_AbC-_9 HTTP/1.1"), true);
  const record = refusals.record(() => [])!;
  expect(record.refusals[0]).toMatchObject({ host: "[redacted]", detail: "GET /?t=[redacted] HTTP/1.1" });
});

test.for(["bpa_", "bpk_"])("redacts a token with the prefix %s from a record", (prefix) => {
  const refusals = new CallRefusals();
  refusals.add(createRefusal(`${prefix}abc.evil.test`, `GET /?t=${prefix}AbC-_9 HTTP/1.1`), true);
  const record = refusals.record(() => [])!;
  expect(record.refusals[0]).toMatchObject({ host: "[redacted]", detail: "GET /?t=[redacted] HTTP/1.1" });
});
