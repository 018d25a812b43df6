import { idAt } from "@backplane/contract";
import { expect, test } from "vitest";
import { ids, NOW, sampleEvent, sampleInvocation, sampleJob, sampleSettlement } from "../support/samples.ts";
import { freshOrg, type Subject } from "../support/subject.ts";

const DAY = 86_400_000;

/** Cases share a database, so each first removes the rows of earlier cases. */
export function retentionCases(subject: () => Subject): void {
  const store = () => subject().store;

  test("removes old finished and dead jobs in steps, and keeps all others", async () => {
    await subject().tamper("delete from jobs");
    const { jobs, retention } = store();
    const queue = ids.next("request");
    const sample_jobs = Array.from({ length: 7 }, () => sampleJob({ queue, max_attempts: 1 }));
    await jobs.enqueue(sample_jobs, 0);
    await jobs.claim(queue, "n", 0, 1_000, 6);
    for (const { id } of sample_jobs.slice(0, 3)) await jobs.complete(id, 1, 1_000);
    await jobs.complete(sample_jobs[3]!.id, 1, 5_000);
    await jobs.fail(sample_jobs[4]!.id, 1, "refused", 1_000, null);
    const readStates = async () =>
      (await Promise.all(sample_jobs.map(({ id }) => jobs.get(id)))).map((job) => job?.state);

    expect(await retention.removeJobs("done", 1_099, 100, 10)).toBe(0);
    expect(await retention.removeJobs("done", 1_100, 100, 2)).toBe(2);
    expect(await retention.removeJobs("done", 1_100, 100, 2)).toBe(1);
    expect(await readStates()).toEqual([undefined, undefined, undefined, "done", "dead", "leased", "ready"]);
    expect(await retention.removeJobs("dead", 1_099, 100, 10)).toBe(0);
    await jobs.replay(sample_jobs[4]!.id, 900);
    expect(await retention.removeJobs("dead", 9_000, 100, 10)).toBe(0);
    const claimed = await jobs.claim(queue, "n", 999, 5_000, 9);
    const again = claimed.find(({ id }) => id === sample_jobs[4]!.id);
    await jobs.fail(again!.id, again!.fence, "refused", 2_000, null);
    expect(await retention.removeJobs("dead", 2_099, 100, 10)).toBe(0);
    expect(await retention.removeJobs("dead", 2_100, 100, 10)).toBe(1);
    expect(await jobs.get(sample_jobs[4]!.id)).toBeNull();
  });

  test("discards jobs of a lane that were due for too long, one of each group at a time", async () => {
    await subject().tamper("delete from jobs");
    const { jobs, retention } = store();
    const queue = ids.next("request");
    const sample_jobs = [
      sampleJob({ queue, lane: "held", group: "a" }),
      sampleJob({ queue, lane: "held", group: "a" }),
      sampleJob({ queue, lane: "held", group: null }),
      sampleJob({ queue, lane: "other", group: null }),
    ];
    await jobs.enqueue(sample_jobs, 1_000);
    const later_job = sampleJob({ queue, lane: "held", group: "a" });
    await jobs.enqueue([later_job], 5_000);
    const discard = (now: number) => retention.discardOverdue(queue, "held", "too late", now, 100, 10);
    expect(await discard(1_099)).toBe(0);
    expect(await discard(1_100)).toBe(2);
    expect(await discard(1_100)).toBe(1);
    expect(await discard(1_100)).toBe(0);
    const stored = await Promise.all([...sample_jobs, later_job].map(({ id }) => jobs.get(id)));
    expect(stored.map((job) => [job?.state, job?.last_error])).toEqual([
      ["discarded", "too late"],
      ["discarded", "too late"],
      ["discarded", "too late"],
      ["ready", null],
      ["ready", null],
    ]);
    const [next] = await jobs.claim(queue, "n", 5_000, 1_000, 9, "held");
    expect(next?.id).toBe(later_job.id);
    expect(await retention.removeJobs("discarded", 1_200, 100, 10)).toBe(3);
  });

  test("removes the oldest events, never beyond the slowest cursor", async () => {
    await subject().tamper("delete from outbox");
    await subject().tamper("delete from cursors");
    const scope = freshOrg();
    for (let n = 0; n < 8; n++) {
      const events = [sampleEvent(`s${n}`, { scope, occurred_at: n < 6 ? 1_000 : 5_000 })];
      await store().invocations.open(sampleInvocation(scope), { records: { events } });
    }
    const { outbox, retention } = store();
    const readRemaining = async () => (await outbox.read(0, 100)).map((event) => event.subject.id);
    const seqs = (await outbox.read(0, 100)).map((event) => event.seq);
    // No consumer has read anything.
    expect(await retention.removeEvents(9_000, 100, 100)).toBe(0);
    await outbox.advance("fast", 0, seqs[7]!, [], 0);
    await outbox.advance("slow", 0, seqs[3]!, [], 0);
    expect(await retention.removeEvents(1_099, 100, 100)).toBe(0);
    expect(await retention.removeEvents(9_000, 100, 3)).toBe(3);
    expect(await retention.removeEvents(9_000, 100, 3)).toBe(1);
    expect(await readRemaining()).toEqual(["s4", "s5", "s6", "s7"]);
    await outbox.advance("slow", seqs[3]!, seqs[7]!, [], 0);
    expect(await retention.removeEvents(5_000, 100, 100)).toBe(2);
    expect(await readRemaining()).toEqual(["s6", "s7"]);
    expect(await retention.removeEvents(5_100, 100, 100)).toBe(2);
    const events = [sampleEvent("late", { scope })];
    await store().invocations.open(sampleInvocation(scope), { records: { events } });
    expect((await outbox.read(seqs[7]!, 10)).map((event) => event.subject.id)).toEqual(["late"]);
  });

  test("removes the progress of calls that ended before the cutoff, and keeps the calls", async () => {
    await subject().tamper("delete from invocation_events");
    const scope = freshOrg();
    const { invocations, retention } = store();
    const progress = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ seq: n + 1, at: NOW, event: { type: "progress" } }));
    const open = async (id: string, ended_at: string | null, events: number) => {
      await invocations.open(sampleInvocation({ ...scope, id }), { records: {} });
      invocations.appendEvents(id, progress(events));
      const end = sampleSettlement({ ended_at: ended_at ?? NOW });
      const other_call = sampleInvocation(scope);
      await invocations.open(other_call, { records: {} });
      await invocations.settle(ended_at === null ? other_call.id : id, 1, end, {});
    };
    const at = Date.parse(NOW);
    const id = (ms: number) => `${idAt("invocation", ms)}${ids.next("invocation").slice(-16)}`;
    const [running, old, late, recent] = [id(at), id(at + 1), id(at + 2), id(at + 3 * DAY)];
    await open(running, null, 3);
    await open(old, new Date(at + 1_000).toISOString(), 25);
    await open(late, new Date(at + 3 * DAY).toISOString(), 2);
    await open(recent, new Date(at + 3 * DAY + 1).toISOString(), 1);
    const sweep = async (limit: number) => {
      const cutoff = at + 2 * DAY;
      const steps: number[] = [];
      for (let after: string | null = ""; after !== null; ) {
        const step: { removed: number; after: string | null } = await retention.removeProgress(
          after,
          idAt("invocation", cutoff),
          new Date(cutoff).toISOString(),
          limit,
        );
        steps.push(step.removed);
        after = step.after;
      }
      return steps;
    };
    expect(await sweep(10)).toEqual([10, 10, 5]);
    const counts = [running, old, late, recent].map(
      async (id) => (await invocations.listEvents(id, 0, 100)).length,
    );
    expect(await Promise.all(counts)).toEqual([3, 0, 2, 1]);
    expect((await invocations.get(scope, old))?.status).toBe("succeeded");
  });

  test("removes tokens some time after they have expired", async () => {
    await subject().tamper("delete from delegations");
    const scope = freshOrg();
    const { invocations, delegations, retention } = store();
    for (const expires_at of [1_000, 2_000]) {
      const row = sampleInvocation(scope);
      const delegation = {
        token_hash: `h${expires_at}${scope.org_id}`,
        invocation_id: row.id,
        scope,
        scopes: [],
        expires_at,
      };
      await invocations.open(row, { delegation, records: {} });
    }
    expect(await retention.removeDelegations(1_500, 501, 10)).toBe(0);
    expect(await retention.removeDelegations(1_500, 500, 10)).toBe(1);
    expect(await delegations.findByHash(`h1000${scope.org_id}`)).toBeNull();
    expect(await delegations.findByHash(`h2000${scope.org_id}`)).not.toBeNull();
  });
}
