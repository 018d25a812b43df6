import { expect, test } from "vitest";
import { CallRefusals } from "../../src/calls/call-record.ts";
import type { Refusal } from "../../src/egress/destinations/refusals.ts";

const createRefusal = (host: string, detail: string): Refusal => ({
  host,
  port: 443,
  reason: "domain.not_allowed",
  detail,
  at: 0,
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
