/** A turn belongs to one gateway, a session has one turn, and an outage of the store costs neither. */
import type { Mutant } from "./mutant.ts";

const STORE = "packages/store/src";
const KERNEL = "packages/kernel/src";
const CONTRACT = ["packages/store/test/contract-sqlite.test.ts"];
const FENCED = ["packages/kernel/test/loop/fenced.test.ts"];
const LEASE = ["packages/kernel/test/node-lease.test.ts"];

export const FENCE_DEFENCES: Mutant[] = [
  {
    defence: "fence: a write of a turn carries the fence",
    file: `${STORE}/ops/holds.ts`,
    from: "where id = $1 and fence = $2 and status = 'running'",
    to: "where id = $1 and $2 >= 0 and status = 'running'",
    tests: CONTRACT,
  },
  {
    defence: "fence: a takeover raises it",
    file: `${STORE}/ops/runs.ts`,
    from: "update runs set node_id = $2, fence = fence + 1",
    to: "update runs set node_id = $2",
    tests: CONTRACT,
  },
  {
    defence: "fence: a takeover takes the open calls along",
    file: `${STORE}/ops/runs.ts`,
    from: "update invocations set node_id = '', fence = fence + 1",
    to: "update invocations set node_id = node_id",
    tests: CONTRACT,
  },
  {
    defence: "fence: a stale gateway admits no call",
    file: `${STORE}/ops/invocations.ts`,
    from: "if (p.tape?.hold != null) yield* requireHeld",
    to: "if (p.tape?.hold === undefined) yield* requireHeld",
    tests: CONTRACT,
  },
  {
    defence: "fence: a stale gateway appends nothing",
    file: `${STORE}/ops/tape.ts`,
    from: "  yield* requireHeld(p.hold, dialect);\n  return",
    to: "  return",
    tests: CONTRACT,
  },
  {
    defence: "fence: a message with a key is fenced too",
    file: `${STORE}/ops/tape.ts`,
    from: "if (p.hold !== null) yield* requireHeld",
    to: "if (p.hold === undefined) yield* requireHeld",
    tests: CONTRACT,
  },
  {
    defence: "fence: a stale turn spawns no sub-agent",
    file: `${STORE}/ops/runs.ts`,
    from: "if (p.parent !== null) yield* requireHeld",
    to: "if (p.parent === undefined) yield* requireHeld",
    tests: CONTRACT,
  },
  {
    defence: "fence: a stale turn compacts nothing",
    file: `${STORE}/ops/sessions.ts`,
    from: "if (p.hold !== null) yield* requireHeld",
    to: "if (p.hold === undefined) yield* requireHeld",
    tests: CONTRACT,
  },
  {
    defence: "fence: a turn is resumed by its fence",
    file: `${STORE}/ops/runs.ts`,
    from: "node_id = $3 and fence = $4",
    to: "node_id = $3 and $4 >= 0",
    tests: CONTRACT,
  },
  {
    defence: "turn-once: a session has one running turn",
    file: `${STORE}/migrations/0015-run-fences.ts`,
    from: "create unique index runs_running",
    to: "create index runs_running",
    tests: CONTRACT,
  },
  {
    defence: "turn-once: no reset, compaction or undo beside a turn",
    file: `${STORE}/ops/holds.ts`,
    from: "if (running !== undefined) refuseBusy",
    to: "if (running === null) refuseBusy",
    tests: CONTRACT,
  },
  {
    defence: "turn-once: a joined message keeps the turn from ending",
    file: `${STORE}/ops/runs.ts`,
    from: "if ((held.joins as number) > p.joins)",
    to: "if ((held.joins as number) < 0)",
    tests: CONTRACT,
  },
  {
    defence: "turn-once: only who began a turn joins it from elsewhere",
    file: `${KERNEL}/loop/loop.ts`,
    from: "run.requested_by !== caller.actor",
    to: "run.requested_by === ''",
    tests: FENCED,
  },
  {
    defence: "lease: the local clock ends it first",
    file: `${KERNEL}/node-lease.ts`,
    from: "asked + this.#ttl * (1 - MARGIN)",
    to: "this.#now() + this.#ttl * (1 - MARGIN)",
    tests: LEASE,
  },
  {
    defence: "lease: nothing is dispatched without it",
    file: `${KERNEL}/invoke/run.ts`,
    from: "!door.lease.held() || live.lapses",
    to: "live.lapses",
    tests: FENCED,
  },
  {
    defence: "lease: a call that was taken over is not dispatched",
    file: `${KERNEL}/invoke/run.ts`,
    from: "live.lapses !== door.lease.lapses",
    to: "live.lapses < 0",
    tests: FENCED,
  },
  {
    defence: "outage: a lease passes before others' work is taken",
    file: `${KERNEL}/node-lease.ts`,
    from: "this.#now() - this.#contact >= this.#ttl",
    to: "this.#now() - this.#contact >= 0",
    tests: LEASE,
  },
  {
    defence: "outage: calls of the living are left alone",
    file: `${KERNEL}/lifecycle.ts`,
    from: "!taken_up || !lease.mayTakeOver()",
    to: "!taken_up",
    tests: FENCED,
  },
  {
    defence: "outage: deliveries of the living are left alone",
    file: `${KERNEL}/hooks/deliver.ts`,
    from: "const ready_only = !this.#lease.mayTakeOver();",
    to: "const ready_only = false;",
    tests: FENCED,
  },
  {
    defence: "outage: entries are kept",
    file: `${KERNEL}/sessions/persister.ts`,
    from: "if (now - lane.away.since < KEEP_MS) putBack",
    to: "if (now < 0) putBack",
    tests: ["packages/kernel/test/sessions/persister.test.ts"],
  },
  {
    defence: "outage: what a lost turn still says is dropped",
    file: `${KERNEL}/sessions/persister.ts`,
    from: "held?.lost === true ? taken.filter",
    to: "held === null ? taken.filter",
    tests: ["packages/kernel/test/sessions/persister.test.ts"],
  },
  {
    defence: "outage: a call of a turn waits for the store",
    file: `${KERNEL}/store-wait.ts`,
    from: 'if (codeOf(error) !== "store.unavailable" || signal.aborted) throw error;',
    to: "if (codeOf(error) !== undefined || signal.aborted) throw error;",
    tests: ["packages/kernel/test/loop/store-away.test.ts"],
  },
  {
    defence: "outage: a lost answer to a commit is asked for",
    file: `${STORE}/postgres/transactions.ts`,
    from: "if (await wasCommitted(pool, xid, error)) return value!;",
    to: "",
    tests: ["packages/store/test/lost-commit.test.ts"],
  },
  {
    defence: "outage: a lost answer to an insert is asked for",
    file: `${STORE}/postgres/transactions.ts`,
    from: "if (!mayHaveCommitted(error)) throw error;",
    to: "throw error;",
    tests: ["packages/store/test/lost-commit.test.ts"],
  },
];
