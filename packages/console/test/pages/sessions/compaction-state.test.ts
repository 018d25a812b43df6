import type { Chain } from "@backplane/contract";
import { expect, test } from "vitest";
import { buildTranscript } from "../../../src/pages/sessions/build-transcript.ts";
import { compactionStates, isSetAside } from "../../../src/pages/sessions/compaction-state.ts";
import { date, entry } from "../../support/sample-tape.ts";

test("marks an undone compaction and its entries as set aside, and the current one as in effect", () => {
  const chain = (id: string, fields: object) =>
    ({ id, origin: "compaction", parent_chain_id: "root", fork_entry_id: 10, ...fields }) as unknown as Chain;
  const chains = [
    chain("root", { origin: "start", parent_chain_id: null, last_entry_id: 30, created_at: date(1) }),
    chain("undone", { last_entry_id: 15, created_at: date(11) }),
    chain("current", { fork_entry_id: 10, last_entry_id: 40, created_at: date(31) }),
  ];
  const anchor = (id: number) =>
    entry(id, "anchor", { name: "compaction", state: { kind: "compaction", summary: "" } });
  const items = buildTranscript([anchor(11), anchor(31)]);
  const states = compactionStates(items, chains, "current");
  expect(states.get(11)).toMatchObject({ chain_id: "undone", in_effect: false, undoable: false });
  expect(states.get(31)).toMatchObject({ chain_id: "current", in_effect: true, undoable: true });
  expect([10, 11, 15, 16, 35].map((id) => isSetAside(id, states))).toEqual([false, true, true, false, false]);
});
