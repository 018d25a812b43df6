/**
 * A turn belongs to one gateway at a time, and a session has at most one running turn; the store enforces both. A claim
 * of ready jobs leaves jobs with an expired lease to their holders.
 */
import type { RunRow, SessionKey, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { holdOf, sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import {
  brief,
  freshKey,
  message,
  newChain,
  newSession,
  start,
  summary,
} from "../support/sample-sessions.ts";
import { ids, sampleInvocation, sampleSettlement } from "../support/samples.ts";

export function fenceCases(store: () => Store): void {
  const createSession = async () => {
    const key = freshKey();
    const { head_chain_id } = await store().sessions.create(newSession(key), newChain(), [start], {});
    return { key, scope: key.scope, head: head_chain_id };
  };
  const readTape = async (key: SessionKey) => (await store().sessions.replay(key, 1, 1_000)).map(brief);
  const taken_over = { code: "run.taken_over" };
  const busy = { code: "session.busy" };

  /** A turn of an expired node, with a running call and one that awaits approval, taken over by another node. */
  const takeOver = async (key: SessionKey) => {
    const old = sampleRun(key, { node_id: ids.next("node") });
    await store().runs.start(old, tape(key, "hello"), 1, {});
    const call = (status: "running" | "waiting_approval") =>
      sampleInvocation({ ...key.scope, session_id: key.session_id, node_id: old.node_id, status });
    const calls = [call("running"), call("waiting_approval")];
    for (const row of calls) await store().invocations.open(row, { records: {} });
    const node_id = ids.next("node");
    const claimed = await store().runs.claimOrphans(node_id, Date.now(), 1_000);
    const current = claimed.find(({ id }) => id === old.id)!;
    return { old, current, calls };
  };

  test("increases the fence on a takeover and releases the open calls of the turn", async () => {
    const { key, scope } = await createSession();
    const { old, current, calls } = await takeOver(key);
    expect(current).toMatchObject({ id: old.id, fence: old.fence + 1, status: "running" });
    for (const row of calls) {
      const end = sampleSettlement();
      expect(await store().invocations.settle(row.id, row.fence, end, {})).toBe(false);
      expect(await store().invocations.settleWithTape(row.id, row.fence, end, {}, tape(key, "x"))).toBeNull();
      expect(await store().invocations.recordRetry({ ...row, retry_count: 1 })).toBe(false);
      expect(await store().invocations.start(row.id, row.fence, "", {})).toBe(false);
    }
    // No node owns them, so the next claim gets them.
    const claimed = await store().invocations.claimOrphans(current.node_id, Date.now(), 1_000);
    expect(claimed.find(({ id }) => id === calls[0]!.id)).toMatchObject({ node_id: current.node_id });
    expect((await store().invocations.get(scope, calls[1]!.id))?.fence).toBeGreaterThan(calls[1]!.fence);
    expect(await readTape(key)).toEqual(["2 hello"]);
  });

  test("refuses writes with the old fence of a turn and accepts those with the new one", async () => {
    const { key, scope, head } = await createSession();
    const { old, current } = await takeOver(key);
    const writes = (run: RunRow, n: number): (() => Promise<unknown>)[] => {
      const hold = holdOf(run);
      const entries = { ...tape(key, `${n}`), hold };
      const once = { scope, key: `k${n}`, digest: "d", now: 1_000, stale_ms: 500, response_fields: {} };
      const child = { ...key, session_id: `child-${n}` };
      const in_session = { ...scope, session_id: key.session_id };
      return [
        () => store().sessions.appendTape(entries),
        () => store().sessions.appendTape(entries, once),
        () => store().invocations.open(sampleInvocation(in_session), { tape: entries, records: {} }),
        async () => {
          await store().sessions.create(newSession(child), newChain(), [start], {});
          await store().runs.start(sampleRun(child), tape(child, "x"), 1, {}, undefined, hold);
        },
        async () => {
          const last_entry_id = (await store().sessions.get(key))!.last_entry_id;
          const at = { chain_id: head, last_entry_id };
          return await store().sessions.compact(key, at, newChain(), [summary], {}, { hold });
        },
      ];
    };
    for (const write of writes(old, 1)) await expect(write()).rejects.toMatchObject(taken_over);
    expect(await store().runs.checkHold(holdOf(old))).toBeNull();
    expect(await store().runs.end(scope, holdOf(old), 9, sampleEnd(), tape(key, "old"), {})).toBeNull();
    expect(await store().runs.resume({ ...old, node_id: current.node_id }, tape(key, "old"))).toBeNull();
    expect(await readTape(key)).toEqual(["2 hello"]);
    expect((await store().invocations.list(scope, {}, { limit: 9 })).items).toHaveLength(2);

    expect(await store().runs.checkHold(holdOf(current))).toEqual({ joins: 0 });
    expect(await store().runs.resume(current, tape(key, "resumed"))).toMatchObject({ first_id: 3 });
    for (const write of writes(current, 2)) await write();
    expect(
      await store().runs.end(scope, holdOf(current), 0, sampleEnd(), tape(key, "new"), {}),
    ).toMatchObject({
      first_id: expect.any(Number),
    });
    // No node owns a run that has ended.
    for (const write of writes(current, 3)) await expect(write()).rejects.toMatchObject(taken_over);
  });

  test("refuses a second running turn of a session, reports the id of the first, and keeps the head", async () => {
    const { key, scope, head } = await createSession();
    const racing = Array.from({ length: 8 }, () => sampleRun(key));
    const starts = await Promise.allSettled(
      racing.map((run, n) => store().runs.start(run, tape(key, `m${n}`), 1, {})),
    );
    const first = racing[starts.findIndex(({ status }) => status === "fulfilled")]!;
    expect(starts.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of starts) {
      if (result.status === "rejected") {
        expect(result.reason).toMatchObject({ ...busy, details: { run_id: first.id } });
      }
    }
    expect(await readTape(key)).toHaveLength(1);
    const at = { chain_id: head, last_entry_id: 2 };
    await expect(store().sessions.compact(key, at, newChain(), [summary], {})).rejects.toMatchObject(busy);
    await expect(store().sessions.reset(key, head, newChain(), [start], {})).rejects.toMatchObject(busy);
    await expect(store().sessions.appendIdle(key, [start])).rejects.toMatchObject(busy);
    await expect(store().sessions.moveHead(key, head, head, {})).rejects.toMatchObject(busy);
    // The same id in another workspace is another session.
    const other = { ...key, workspace: "/elsewhere" };
    await store().sessions.create(newSession(other), newChain(), [start], {});
    await store().runs.start(sampleRun(other), tape(other, "x"), 1, {});
    await store().runs.end(scope, holdOf(first), 0, sampleEnd(), tape(key, "answer"), {});
    await store().runs.start(sampleRun(key), tape(key, "next"), 1, {});
  });

  test("does not end a turn before it has read the messages of other gateways", async () => {
    const { key, scope } = await createSession();
    const run = sampleRun(key);
    await store().runs.start(run, tape(key, "hello"), 1, {});
    const answer = { run_id: run.id, event_id: "e" };
    const once = { scope, key: "k", digest: "d", now: 1_000, stale_ms: 500, response_fields: answer };
    expect(await store().runs.join(run.id, 2, tape(key, "more"), once)).toMatchObject({ first_id: 3 });
    const key_state = await store().idempotency.find(scope, "k", "d", 1_000, 500);
    expect(JSON.parse((key_state as { body: string }).body)).toEqual({ ...answer, entry_id: 3 });
    expect(await store().runs.checkHold(holdOf(run))).toEqual({ joins: 1 });
    const end = (joins: number) =>
      store().runs.end(scope, holdOf(run), joins, sampleEnd(), tape(key, "end"), {});
    expect(await end(0)).toEqual({ joins: 1 });
    expect(await readTape(key)).toEqual(["2 hello", "3 more"]);
    expect(await store().runs.join(run.id, 2, tape(key, "again"))).not.toBeNull();
    expect(await store().runs.join(run.id, 2, tape(key, "too many"))).toBeNull();
    const foreign = { ...key, scope: freshKey().scope };
    expect(await store().runs.join(run.id, 9, tape(foreign, "x"))).toBeNull();
    expect(await end(2)).toMatchObject({ first_id: 5 });
    expect(await store().runs.join(run.id, 9, tape(key, "late"))).toBeNull();
    expect(await readTape(key)).toEqual(["2 hello", "3 more", "4 again", "5 end"]);
    await store().sessions.append(key, [message("free")]);
  });

  test("excludes jobs with an expired lease from a claim of ready jobs", async () => {
    const queue = `q-${ids.next("job")}`;
    const job = (id: string) => ({ id, queue, group: null, payload: {}, max_attempts: 9 });
    const { jobs } = store();
    await jobs.enqueue([job(`${queue}-1`)], 1_000);
    const [leased] = await jobs.claim(queue, "n", 1_000, 100, 5);
    await jobs.enqueue([job(`${queue}-2`)], 5_000);
    const ready = await jobs.claim(queue, "m", 5_000, 1_000_000, 5, undefined, true);
    expect(ready.map(({ id }) => id)).toEqual([`${queue}-2`]);
    // The holder may still extend its lease.
    expect(await jobs.extend(leased!.id, leased!.fence, 5_000, 100)).toBe(true);
    expect((await jobs.claim(queue, "m", 9_000, 100, 5)).map(({ id }) => id)).toEqual([leased!.id]);
  });
}
