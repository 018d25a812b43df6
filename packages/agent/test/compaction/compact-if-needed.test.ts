/** Tests when a turn compacts its own session, with a fake store and a fake model. */
import { BackplaneError, type Entry, type ErrorCode } from "@backplane/contract";
import type { RunRow } from "@backplane/ports";
import { scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import { type CompactionDeps, Compactions } from "../../src/compaction/compactions.ts";
import type { History } from "../../src/loop/history.ts";
import { Turn } from "../../src/loop/turn.ts";

const key = { scope, workspace: "/w", session_id: "s1" };

function createTurn(tokens: number): Turn {
  const turn = new Turn(key, user, { id: "run_1", fence: 1, joins: 0, chain_id: "ch_1" } as RunRow, {
    iterations: 5,
    tools: null,
  });
  turn.history = { tokens } as History;
  return turn;
}

/** Returns compactions whose summary is written by `summarize`, and the kinds of their events. */
function createCompactions(summarize: () => Promise<string>) {
  const published: string[] = [];
  const message = (id: number, role: string, content: string): Entry => ({
    id,
    kind: "message",
    payload: { role, content },
    meta: {},
    date: "2026-01-01T00:00:00.000Z",
  });
  const entries = [message(1, "user", "x".repeat(8_000)), message(2, "assistant", "y")];
  const deps = {
    port: { tryPublish: (kind: string) => published.push(kind) },
    persister: { drain: async () => {}, announce() {} },
    sessions: {
      hydrate: async () => ({ session: { head_chain_id: "ch_1", metadata: {} }, entries }),
      compact: async () => ({ id: "ch_2" }),
      readEntries: async () => [],
    },
    histories: { forget() {}, open: async () => ({ tokens: 10 }) },
    log: createTestLogger(),
    requireCompaction: async () => {},
    chooseModel: async () => ({ provider: "p", model: "m", window: 2_000 }),
    ids: { next: () => "s2" },
    pins: { restorePinned: async () => ({ pins: new Set(), entries }) },
    findCompactors: async () => [],
    models: { call: async () => ({ text: await summarize() }) },
  };
  return { published, compactions: new Compactions(deps as unknown as CompactionDeps) };
}

test("moves the turn to the new chain and its history", async () => {
  const { published, compactions } = createCompactions(async () => "short");
  const turn = createTurn(1_700);
  await compactions.compactIfNeeded(turn, "p");
  expect([turn.run.chain_id, turn.history.tokens]).toEqual(["ch_2", 10]);
  expect(published).toEqual(["session.compaction.started", "session.compaction.completed"]);
});

test("does not compact below 80% of the window", async () => {
  const { published, compactions } = createCompactions(async () => "short");
  await compactions.compactIfNeeded(createTurn(1_599), "p");
  expect(published).toEqual([]);
  await compactions.compactIfNeeded(createTurn(1_600), "p");
  expect(published).toHaveLength(2);
});

test("does not start a failed compaction again in the same turn", async () => {
  let tries = 0;
  const { published, compactions } = createCompactions(async () => {
    tries++;
    throw new Error("the model is unavailable");
  });
  const turn = createTurn(1_700);
  for (let call = 0; call < 3; call++) await compactions.compactIfNeeded(turn, "p");
  expect(tries).toBe(3);
  expect(published).toEqual(["session.compaction.started", "session.compaction.failed"]);
  await compactions.compactIfNeeded(createTurn(1_700), "p");
  expect(tries).toBe(6);
});

test.each<ErrorCode>(["request.invalid", "export.not_found", "run.taken_over", "session.busy"])(
  "fails without a second try on %s",
  async (code) => {
    let tries = 0;
    const { published, compactions } = createCompactions(async () => {
      tries++;
      throw new BackplaneError(code);
    });
    await expect(compactions.compact(key, user, {})).rejects.toMatchObject({ code });
    expect(tries).toBe(1);
    expect(published).toEqual(["session.compaction.started", "session.compaction.failed"]);
  },
);
