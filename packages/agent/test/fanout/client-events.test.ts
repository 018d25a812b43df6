import { BUS_KINDS, type BusEvent } from "@backplane/contract";
import { toTapedEntry } from "@backplane/session";
import { expect, test } from "vitest";
import { isTaped } from "../../src/fanout/client-events.ts";

test("isTaped accepts exactly the events that the tape records", () => {
  const payloads = [{}, { persist: false }, { __persist__: false }, { persist: true }];
  const disagreeing: string[] = [];
  for (const kind of [...Object.keys(BUS_KINDS), "x.acme.thing"]) {
    for (const session_id of ["s", "kernel"]) {
      for (const payload of payloads) {
        const event = {
          id: "evt_1",
          kind,
          session_id,
          ts: 1,
          source: "acme",
          payload,
        } as unknown as BusEvent;
        if (isTaped(event) !== (toTapedEntry(event) !== null))
          disagreeing.push(`${kind} ${JSON.stringify(payload)}`);
      }
    }
  }
  expect(disagreeing).toEqual([]);
});
