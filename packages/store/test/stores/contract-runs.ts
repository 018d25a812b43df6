/** Runs and invocations that append to the tape: row, entries and events are one transaction. */
import type { RunRow, SessionKey, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { holdOf, sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import { brief, freshKey, message, newChain, newSession, start } from "../support/sample-sessions.ts";
import { ids, sampleEvent, sampleInvocation, sampleSettlement } from "../support/samples.ts";
import { readAllPages } from "./all-pages.ts";

export function runCases(store: () => Store): void {
  const createSession = async (overrides: Partial<SessionKey> = {}) => {
    const key = { ...freshKey(), ...overrides };
    const { head_chain_id } = await store().sessions.create(newSession(key), newChain(), [start], {});
    return { key, scope: key.scope, head: head_chain_id };
  };
  const readTape = async (key: SessionKey) => (await store().sessions.replay(key, 1, 1_000)).map(brief);
  const readPublishedEvents = async ({ scope }: SessionKey) =>
    (await store().outbox.read(0, 100, scope)).map((event) => event.subject.id);
  const records = ({ scope }: SessionKey, name: string) => ({ events: [sampleEvent(name, { scope })] });

  test("starts a run with its entries on the head and ends it once, with the entry of the answer", async () => {
    const { key, scope, head } = await createSession();
    const run = sampleRun(key, { chain_id: "ch_unknown" });
    const begun = await store().runs.start(run, tape(key, "hello", "more"), 2, records(key, "started"));
    expect(begun).toEqual({ chain_id: head, first_id: 2, last_id: 3 });
    const {
      node_id: _,
      fence: _fence,
      joins: _joins,
      ...public_run
    } = { ...run, chain_id: head, first_entry_id: 2 };
    expect(await store().runs.get(scope, run.id)).toEqual(public_run);
    const ends = await Promise.all(
      Array.from({ length: 5 }, (_, n) =>
        store().runs.end(
          scope,
          holdOf(run),
          0,
          sampleEnd({ iterations: n }),
          tape(key, `a${n}`, `b${n}`),
          records(key, `e${n}`),
        ),
      ),
    );
    const winner = ends.findIndex((end) => end !== null);
    const { usage, iterations } = sampleEnd({ iterations: winner });
    expect(ends.filter((end) => end !== null)).toEqual([
      { chain_id: head, first_id: 4, last_id: 5, usage, iterations },
    ]);
    expect(await store().runs.get(scope, run.id)).toEqual({
      ...public_run,
      ...sampleEnd({ iterations: winner }),
      output: { content: "done", entry_id: 5 },
    });
    expect(await readTape(key)).toEqual(["2 hello", "3 more", `4 a${winner}`, `5 b${winner}`]);
    expect(await readPublishedEvents(key)).toEqual(["started", `e${winner}`]);
    expect(await store().sessions.verify(scope, head)).toBeNull();
  });

  test("stores the limits of a sub-agent in the first run of its session, hidden from the public run", async () => {
    const { key, scope } = await createSession();
    expect(await store().runs.findFirst(key)).toBeNull();
    const subagent = {
      invocation_id: "inv_1",
      key: "call_1",
      iterations: 3,
      tools: ["look"],
      wall_ms: 1_000,
      context: "background" as const,
    };
    const run = sampleRun(key, { trigger: "subagent", subagent });
    await store().runs.start(run, tape(key, "hello"), 1, {});
    await store().runs.end(scope, holdOf(run), 0, sampleEnd(), tape(key, "done"), {});
    await store().runs.start(sampleRun(key), tape(key, "again"), 1, {});
    expect(await store().runs.findFirst(key)).toMatchObject({ id: run.id, status: "completed", subagent });
    expect(await store().runs.get(scope, run.id)).not.toHaveProperty("subagent");
    expect(await store().runs.findFirst({ ...key, workspace: "other" })).toBeNull();
  });

  test("stores the id of a run's first entry, after entries that were queued before it", async () => {
    const { key, scope } = await createSession();
    const readFirstEntry = async (run: RunRow) => (await store().runs.get(scope, run.id))?.first_entry_id;
    const [first, second] = [sampleRun(key), sampleRun(key)];
    await store().runs.start(first, tape(key, "queued", "queued", "hello"), 1, {});
    expect(await readFirstEntry(first)).toBe(4);
    await store().runs.end(scope, holdOf(first), 0, sampleEnd(), tape(key, "answer"), {});
    // A run that continues from its tape begins with the next entry.
    await store().runs.start(second, tape(key, "queued"), 0, {});
    expect(await readFirstEntry(second)).toBe(7);
    const claimed = await store().runs.claimOrphans(ids.next("node"), Date.now(), 1_000);
    expect(claimed.find(({ id }) => id === second.id)).toMatchObject({ first_entry_id: 7 });
  });

  test("appends nothing for a run that ends without an answer, and returns an empty range", async () => {
    const { key, scope, head } = await createSession();
    const run = sampleRun(key);
    await store().runs.start(run, tape(key, "hello"), 1, {});
    const failed = sampleEnd({ status: "failed", output: null, error: { code: "internal", message: "no" } });
    const ended = await store().runs.end(scope, holdOf(run), 0, failed, null, records(key, "failed"));
    const { usage, iterations } = failed;
    expect(ended).toEqual({ chain_id: head, first_id: 1, last_id: 0, usage, iterations });
    expect(await store().runs.get(scope, run.id)).toMatchObject(failed);
    expect(await readTape(key)).toEqual(["2 hello"]);

    // An entry at the end of the tape is not an output.
    const other = sampleRun(key);
    await store().runs.start(other, tape(key, "again"), 1, {});
    await store().runs.end(scope, holdOf(other), 0, failed, tape(key, "gave up"), {});
    expect(await store().runs.get(scope, other.id)).toMatchObject({ status: "failed", output: null });
    expect(await readTape(key)).toEqual(["2 hello", "3 again", "4 gave up"]);
  });

  test("writes nothing for a run of a missing or foreign session", async () => {
    const { key, scope } = await createSession();
    const missing = { ...key, session_id: "missing" };
    const run = sampleRun(missing);
    const refused = { code: "session.not_found" };
    await expect(store().runs.start(run, tape(missing, "x"), 1, records(key, "no"))).rejects.toMatchObject(
      refused,
    );
    expect(await store().runs.get(scope, run.id)).toBeNull();

    const real = sampleRun(key);
    await store().runs.start(real, tape(key, "hello"), 1, {});
    await expect(
      store().runs.end(scope, holdOf(real), 0, sampleEnd(), tape(missing, "x"), records(key, "no")),
    ).rejects.toMatchObject(refused);
    for (const foreign of [{ ...scope, project_id: "proj_other" }, freshKey().scope]) {
      expect(await store().runs.get(foreign, real.id)).toBeNull();
      expect(await store().runs.end(foreign, holdOf(real), 0, sampleEnd(), tape(key, "x"), {})).toBeNull();
    }
    expect(await store().runs.get({ ...scope, project_id: null }, real.id)).toMatchObject({
      status: "running",
      output: null,
      ended_at: null,
    });
    // The id of the run exists already, so the entries are rolled back too.
    await expect(store().runs.start(real, tape(key, "twice"), 1, {})).rejects.toThrow();
    expect(await readTape(key)).toEqual(["2 hello"]);
    expect(await readPublishedEvents(key)).toEqual([]);
    expect(await store().sessions.append(key, [message("next")])).toMatchObject({ first_id: 3 });
  });

  test("lists runs by scope and filter, newest first", async () => {
    const { key, scope, head } = await createSession();
    const other_workspace = (await createSession({ scope, workspace: "/other" })).key;
    const project = (await createSession({ scope: { ...scope, project_id: "proj_other" } })).key;
    const rows: RunRow[] = [];
    for (const session of [key, other_workspace, project, key, key]) {
      const run = sampleRun(session);
      await store().runs.start(run, tape(session, "x"), 1, {});
      // A session has one running turn at a time.
      await store().runs.end(session.scope, holdOf(run), 0, sampleEnd({ output: null }), null, {});
      rows.push(run);
      if (rows.length === 4) await store().sessions.reset(key, head, newChain(), [start], {});
    }
    const listIndexes = async (where: typeof scope, filter: Parameters<Store["runs"]["list"]>[1]) => {
      const items = await readAllPages((page) => store().runs.list(where, filter, page));
      return items.map((item) => rows.findIndex((row) => row.id === item.id));
    };
    expect(await listIndexes(scope, {})).toEqual([4, 3, 1, 0]);
    expect(await listIndexes({ ...scope, project_id: null }, {})).toEqual([4, 3, 2, 1, 0]);
    expect(await listIndexes({ ...scope, project_id: null }, { session_id: "s" })).toEqual([4, 3, 2, 1, 0]);
    expect(await listIndexes(scope, { session_id: "s", workspace: "/w" })).toEqual([4, 3, 0]);
    expect(await listIndexes(scope, { workspace: "/other" })).toEqual([1]);
    expect(await listIndexes(scope, { chain_id: head })).toEqual([3, 0]);
    expect(await listIndexes(freshKey().scope, { chain_id: head })).toEqual([]);
    const [item] = (await store().runs.list(scope, {}, { limit: 1 })).items;
    expect(Object.keys(item!)).not.toContain("node_id");
  });

  test("takes over the running runs of an expired node", async () => {
    const { key, scope } = await createSession();
    const dead = ids.next("node");
    const [node_a, node_b] = [ids.next("node"), ids.next("node")];
    const keys = [key];
    for (const workspace of ["/2", "/3", "/4"]) keys.push((await createSession({ scope, workspace })).key);
    const runs = keys.map((session_key) => sampleRun(session_key, { node_id: dead }));
    for (const [n, run] of runs.entries()) await store().runs.start(run, tape(keys[n]!, "x"), 1, {});
    await store().runs.end(scope, holdOf(runs[3]!), 0, sampleEnd(), tape(keys[3]!, "y"), {});
    const claims = await Promise.all(
      [node_a, node_b].map((node) => store().runs.claimOrphans(node, Date.now(), 1_000)),
    );
    const again = await store().runs.claimOrphans(node_a, Date.now(), 1_000);
    const runsOfOrg = (claimed: RunRow[]) => claimed.filter((run) => run.org_id === scope.org_id);
    // A SQLite home has one process, so each node may take over from the other.
    const last = new Map([...claims, again].flatMap(runsOfOrg).map((run) => [run.id, run.node_id]));
    expect([...last.keys()].sort()).toEqual(
      runs
        .slice(0, 3)
        .map((run) => run.id)
        .sort(),
    );
    for (const node of last.values()) expect([node_a, node_b]).toContain(node);
    const [first] = [...claims, again].flatMap(runsOfOrg);
    expect(first).toMatchObject({ status: "running", input: { text: "hello" } });
  });

  test("resumes a run with its entry only for the node that owns it", async () => {
    const { key, scope, head } = await createSession();
    const run = { ...sampleRun(key), resumed: 1 };
    await store().runs.start(sampleRun(key, { id: run.id }), tape(key, "hello"), 1, {});
    expect(await store().runs.resume({ ...run, node_id: "node_b" }, tape(key, "not mine"))).toBeNull();
    expect((await store().runs.get(scope, run.id))?.resumed).toBeUndefined();
    expect(await store().runs.resume(run, tape(key, "resumed"))).toEqual({
      chain_id: head,
      first_id: 3,
      last_id: 3,
    });
    expect(await store().runs.get(scope, run.id)).toMatchObject({ status: "running", resumed: 1 });
    const nowhere = { ...key, session_id: "missing" };
    await expect(store().runs.resume({ ...run, resumed: 2 }, tape(nowhere, "x"))).rejects.toMatchObject({
      code: "session.not_found",
    });
    await store().runs.end(scope, holdOf(run), 0, sampleEnd(), tape(key, "done"), {});
    expect(await store().runs.resume({ ...run, resumed: 2 }, tape(key, "late"))).toBeNull();
    expect(await store().runs.get(scope, run.id)).toMatchObject({ status: "completed", resumed: 1 });
    expect(await readTape(key)).toEqual(["2 hello", "3 resumed", "4 done"]);
  });

  test("opens and settles an invocation together with its entries", async () => {
    const { key, scope, head } = await createSession();
    const turn = { workspace: "/w", tool_call_id: "call_1", entry_meta: { step: 1 } };
    const row = sampleInvocation({ ...scope, session_id: "s", turn });
    expect(
      await store().invocations.open(row, { tape: tape(key, "call"), records: records(key, "open") }),
    ).toEqual({ chain_id: head, first_id: 2, last_id: 2 });
    expect((await store().invocations.get(scope, row.id))?.turn).toEqual(turn);
    const [listed] = (await store().invocations.list(scope, {}, { limit: 1 })).items;
    expect(Object.keys(listed!)).not.toContain("turn");
    const settle = (fence: number, n: number) =>
      store().invocations.settleWithTape(
        row.id,
        fence,
        sampleSettlement({ result: { n } }),
        records(key, `settled ${n}`),
        tape(key, `result ${n}`),
      );
    expect(await settle(2, 9)).toBeNull();
    const wins = await Promise.all(Array.from({ length: 5 }, (_, n) => settle(1, n)));
    const winner = wins.findIndex((win) => win !== null);
    expect(wins.filter((win) => win !== null)).toEqual([{ chain_id: head, first_id: 3, last_id: 3 }]);
    expect(await store().invocations.get(scope, row.id)).toMatchObject({
      status: "succeeded",
      result: { n: winner },
    });
    expect(await readTape(key)).toEqual(["2 call", `3 result ${winner}`]);
    expect(await readPublishedEvents(key)).toEqual(["open", `settled ${winner}`]);
    expect(await store().invocations.open(sampleInvocation(scope), { records: {} })).toBeNull();
  });

  test("neither opens nor settles an invocation of a missing session", async () => {
    const { key, scope } = await createSession();
    const missing = tape({ ...key, workspace: "/nowhere" }, "x");
    const refused = { code: "session.not_found" };
    const row = sampleInvocation(scope);
    const good = sampleInvocation(scope);
    // Other writes of the batch are kept.
    const [bad, fine] = await Promise.allSettled([
      store().invocations.open(row, { tape: missing, records: records(key, "no") }),
      store().invocations.open(good, { tape: tape(key, "call"), records: {} }),
    ]);
    expect(bad).toMatchObject({ status: "rejected", reason: refused });
    expect(fine).toMatchObject({ status: "fulfilled", value: { first_id: 2 } });
    expect(await store().invocations.get(scope, row.id)).toBeNull();
    await expect(
      store().invocations.settleWithTape(good.id, 1, sampleSettlement(), records(key, "no"), missing),
    ).rejects.toMatchObject(refused);
    expect((await store().invocations.get(scope, good.id))?.status).toBe("running");
    expect(await readPublishedEvents(key)).toEqual([]);
    expect(await store().invocations.settle(good.id, 1, sampleSettlement(), {})).toBe(true);
  });

  test("completes an idempotency key with the run that it starts, and writes nothing for a used key", async () => {
    const key = freshKey();
    await store().sessions.create(newSession(key), newChain(), [start], {});
    const once = { scope: key.scope, key: "k", digest: "d", now: 1_000, stale_ms: 500 };
    const [first, second] = [sampleRun(key), sampleRun(key)];
    const { last_id } = await store().runs.start(first, tape(key, "hello"), 1, {}, once);
    await store().runs.end(key.scope, holdOf(first), 0, sampleEnd({ output: null }), null, {});
    const key_state = await store().idempotency.find(key.scope, "k", "d", 1_000, 500);
    expect(key_state).toMatchObject({ state: "done", status: 202 });
    expect(JSON.parse((key_state as { body: string }).body)).toEqual({ id: first.id, entry_id: last_id });
    await expect(store().runs.start(second, tape(key, "again"), 1, {}, once)).rejects.toMatchObject({
      code: "idempotency.in_progress",
    });
    expect(await store().runs.get(key.scope, second.id)).toBeNull();
    expect(await store().sessions.replay(key, last_id, 9)).toEqual([]);
  });
}
