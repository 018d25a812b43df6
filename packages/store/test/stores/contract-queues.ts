import type { Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ids, sampleEvent, sampleInvocation, sampleJob, sampleSettlement } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function queueCases(store: () => Store): void {
  const newQueueName = () => ids.next("request");

  test("reads events in order by cursor within a scope, and notifies the listener", async () => {
    const scope = freshOrg();
    const notified = new Promise<void>((resolve) => {
      const stop = store().outbox.onAppended(() => {
        stop();
        resolve();
      });
    });
    const before = (await store().outbox.read(0, 10_000)).at(-1)?.seq ?? 0;
    for (let n = 0; n < 4; n++) {
      const event_scope = n === 2 ? { ...scope, project_id: "proj_other" } : scope;
      await store().invocations.open(sampleInvocation(event_scope), {
        records: { events: [sampleEvent(`s${n}`, { scope: event_scope, from_hook: n === 3 })] },
      });
    }
    await notified;
    const all = await store().outbox.read(before, 100);
    expect(all.map((event) => event.subject.id)).toEqual(["s0", "s1", "s2", "s3"]);
    expect(all.map((event) => event.from_hook)).toEqual([false, false, false, true]);
    const seqs = all.map((event) => event.seq);
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b));
    expect((await store().outbox.read(seqs[1]!, 1)).map((event) => event.subject.id)).toEqual(["s2"]);
    expect((await store().outbox.read(0, 100, scope)).map((event) => event.subject.id)).toEqual([
      "s0",
      "s1",
      "s3",
    ]);
    expect(await store().outbox.read(0, 100, { ...scope, project_id: null })).toHaveLength(4);
  });

  test("summarizes, by kind, the events that `read` would return next", async () => {
    const scope = freshOrg();
    const before = (await store().outbox.read(0, 10_000)).at(-1)?.seq ?? 0;
    expect(await store().outbox.summarize(before, 10)).toBeNull();
    const org_scope = { ...scope, project_id: null };
    for (const [event_scope, from_hook] of [
      [scope, false],
      [scope, false],
      [org_scope, false],
      [{ ...scope, project_id: "proj_hooks" }, true],
    ] as const) {
      const events = [sampleEvent("s", { scope: event_scope, from_hook })];
      await store().invocations.open(sampleInvocation(event_scope), { records: { events } });
    }
    const { type } = sampleEvent("s");
    const seqs = (await store().outbox.read(before, 10)).map((event) => event.seq);
    const all = (await store().outbox.summarize(before, 10))!;
    expect(all).toMatchObject({ count: 4, last_seq: seqs[3] });
    expect(all.kinds).toHaveLength(2);
    expect(all.kinds).toEqual(
      expect.arrayContaining([
        { ...scope, type },
        { ...org_scope, type },
      ]),
    );
    expect(await store().outbox.summarize(before, 2)).toEqual({
      count: 2,
      last_seq: seqs[1],
      kinds: [{ ...scope, type }],
    });
  });

  test("advances a cursor once, together with its jobs", async () => {
    const consumer = newQueueName();
    expect(await store().outbox.getCursor(consumer)).toBe(0);
    const jobs = Array.from({ length: 10 }, () => sampleJob({ queue: consumer }));
    const moved = await Promise.all(jobs.map((job) => store().outbox.advance(consumer, 0, 5, [job], 1_000)));
    expect(moved.filter(Boolean)).toHaveLength(1);
    expect(await store().outbox.getCursor(consumer)).toBe(5);
    expect(await store().outbox.advance(consumer, 5, 9, [], 1_000)).toEqual([]);
    expect(await store().outbox.advance(consumer, 5, 9, [], 1_000)).toBeNull();
    const stored = await Promise.all(jobs.map((job) => store().jobs.get(job.id)));
    expect(stored.filter((job) => job !== null)).toHaveLength(1);
  });

  test("reserves the new jobs that are due, unless gateways share the store", async () => {
    const scope = freshOrg();
    const name = newQueueName();
    const already_enqueued = sampleJob({ queue: name, lane: "l", scope, group: "b" });
    await store().jobs.enqueue([already_enqueued], 1_000);
    const [alone, first, second, behind] = ["c", "a", "a", "b"].map((group) =>
      sampleJob({ queue: name, lane: "l", scope, group }),
    );
    const jobs = [alone!, first!, second!, behind!, already_enqueued];
    const due = (await store().outbox.advance(name, 0, 5, jobs, 1_000))!;
    if (store().shared) {
      expect(due).toEqual([]);
      return;
    }
    expect(due.map(({ id }) => id)).toEqual([alone!.id, first!.id]);
    const read = await store().jobs.reserve(
      name,
      "n1",
      1_000,
      60_000,
      9,
      "l",
      false,
      new Set([already_enqueued.id]),
    );
    expect(due).toEqual(read);
    const hold = { id: alone!.id, fence: due[0]!.fence, leased_until: 61_000 };
    await store().invocations.open(sampleInvocation(scope), { records: {}, job: hold });
    expect(await store().jobs.get(alone!.id)).toMatchObject({ state: "leased", attempt: 1, fence: 1 });
  });

  test("leaves reserved jobs unchanged when an expired lease of their lane is taken over", async () => {
    const scope = freshOrg();
    const name = newQueueName();
    const expired = sampleJob({ queue: name, lane: "l", scope });
    await store().jobs.enqueue([expired], 1_000);
    await store().jobs.claim(name, "n1", 1_000, 100, 1, "l");
    const added = sampleJob({ queue: name, lane: "l", scope });
    const due = (await store().outbox.advance(name, 0, 5, [added], 1_000))!;
    // On a shared store `advance` reserves nothing, and `reserve` leases jobs instead.
    expect(due).toHaveLength(store().shared ? 0 : 1);
    const [held] = due;
    if (held === undefined) return;
    const reserved = await store().jobs.reserve(name, "n1", 2_000, 100, 9, "l", false, new Set([held.id]));
    expect(reserved).toMatchObject([{ id: expired.id, attempt: 2, fence: 2, state: "leased" }]);
    expect(await store().jobs.get(held.id)).toMatchObject({ state: "ready", attempt: 0, fence: 0 });
  });

  test("leases a job to one claimer, and refuses an old fence", async () => {
    const name = newQueueName();
    const jobs = Array.from({ length: 20 }, () => sampleJob({ queue: name }));
    await store().jobs.enqueue(jobs, 1_000);
    expect(await store().jobs.claim(name, "n", 999, 100, 50)).toEqual([]);
    expect(await store().jobs.listLanes(name, 900)).toEqual([{ lane: "", due_in: 100, org_id: "" }]);
    const claims = await Promise.all(
      Array.from({ length: 5 }, (_, n) => store().jobs.claim(name, `n${n}`, 1_000, 100, 10)),
    );
    const claimed = claims.flat();
    expect(new Set(claimed.map((job) => job.id)).size).toBe(claimed.length);
    expect(claimed.every((job) => job.attempt === 1 && job.fence === 1 && job.state === "leased")).toBe(true);
    let claimed_count = claimed.length;
    while (claimed_count < 20) claimed_count += (await store().jobs.claim(name, "n", 1_000, 100, 20)).length;
    expect(claimed_count).toBe(20);
    expect(await store().jobs.listLanes(name, 1_000)).toEqual([{ lane: "", due_in: 100, org_id: "" }]);

    const job = claimed[0]!;
    expect(await store().jobs.extend(job.id, 1, 1_000, 4_000)).toBe(true);
    const reclaimed = await store().jobs.claim(name, "other", 1_100, 100, 50);
    expect(reclaimed).toHaveLength(19);
    expect(reclaimed.every((item) => item.attempt === 2 && item.fence === 2)).toBe(true);
    expect(await store().jobs.complete(reclaimed[0]!.id, 1, 1_100)).toBe(false);
    expect(await store().jobs.complete(reclaimed[0]!.id, 2, 1_100)).toBe(true);
    expect(await store().jobs.complete(reclaimed[0]!.id, 2, 1_100)).toBe(false);
    expect(await store().jobs.extend(reclaimed[0]!.id, 2, 1_100, 9_000)).toBe(false);
    expect((await store().jobs.get(reclaimed[0]!.id))?.state).toBe("done");
    expect((await store().jobs.get(job.id))?.payload).toEqual({ event: "evt_1" });
  });

  test("retries a job, marks it dead after its last attempt, and replays it", async () => {
    const name = newQueueName();
    const job = sampleJob({ queue: name, max_attempts: 2 });
    await store().jobs.enqueue([job], 1_000);
    await store().jobs.enqueue([job], 1_000);
    const claim = async (now: number) => (await store().jobs.claim(name, "n", now, 100, 5))[0];
    expect(await claim(1_000)).toMatchObject({ attempt: 1 });
    expect(await store().jobs.fail(job.id, 9, "no", 1_000, 1_000)).toBe(false);
    expect(await store().jobs.fail(job.id, 1, "refused", 1_000, 1_000)).toBe(true);
    expect(await claim(1_999)).toBeUndefined();
    expect(await claim(2_000)).toMatchObject({ attempt: 2, last_error: "refused", run_at: 2_000 });
    expect(await store().jobs.replay(job.id, 0)).toBe(false);
    expect(await store().jobs.fail(job.id, 2, "refused again", 2_000, 1_000)).toBe(true);
    expect(await claim(9_000)).toBeUndefined();
    expect(await store().jobs.listLanes(name, 9_000)).toEqual([]);
    expect(await store().jobs.listDead(name, 5)).toMatchObject([
      { id: job.id, state: "dead", attempt: 2, last_error: "refused again" },
    ]);
    expect(await store().jobs.replay(job.id, 10_000)).toBe(true);
    expect(await claim(10_000)).toMatchObject({ attempt: 3, fence: 3, max_attempts: 2 });
    expect(await store().jobs.fail(job.id, 3, "x", 10_000, 0.6)).toBe(true);
    expect(await claim(10_001)).toMatchObject({ attempt: 4 });
    // The lease expires without a report, and no attempt is left.
    expect(await claim(20_000)).toBeUndefined();
    expect(await store().jobs.get(job.id)).toMatchObject({ state: "dead", attempt: 4 });
    const dead_job = sampleJob({ queue: name });
    await store().jobs.enqueue([dead_job], 1_000);
    const [claimed] = await store().jobs.claim(name, "n", 20_000, 100, 5);
    expect(await store().jobs.fail(dead_job.id, claimed!.fence, "never", 20_000, null)).toBe(true);
    expect(await store().jobs.get(dead_job.id)).toMatchObject({ state: "dead", attempt: 1 });
  });

  test("runs the jobs of a group one after another, and continues after a dead job", async () => {
    const name = newQueueName();
    const group = (g: string, count: number) =>
      Array.from({ length: count }, () => sampleJob({ queue: name, group: g, max_attempts: 1 }));
    const [a, b] = [group("a", 3), group("b", 1)];
    await store().jobs.enqueue([...a, ...b], 1_000);
    const claim = async (now = 1_000) =>
      (await store().jobs.claim(name, "n", now, 1_000_000, 10)).map((job) => job.id).sort();
    expect(await claim()).toEqual([a[0]!.id, b[0]!.id].sort());
    expect(await claim()).toEqual([]);
    await store().jobs.complete(a[0]!.id, 1, 1_100);
    expect(await claim()).toEqual([a[1]!.id]);
    await store().jobs.fail(a[1]!.id, 1, "dead", 1_000, 1_000);
    expect(await claim()).toEqual([a[2]!.id]);
    await store().jobs.replay(a[1]!.id, 1_000);
    expect(await claim()).toEqual([]);
    await store().jobs.complete(a[2]!.id, 1, 1_100);
    expect(await claim()).toEqual([a[1]!.id]);
    await store().jobs.complete(a[1]!.id, 2, 1_100);
    const added = group("a", 1);
    await store().jobs.enqueue(added, 1_000);
    expect(await claim()).toEqual([added[0]!.id]);
  });

  test("claims the jobs of one lane, and lists lanes in the order in which they are due", async () => {
    const name = newQueueName();
    const job = (lane: string) => sampleJob({ queue: name, lane, group: `${lane}/x${ids.next("job")}` });
    const busy = Array.from({ length: 5 }, () => job("busy"));
    await store().jobs.enqueue(busy, 1_000);
    await store().jobs.enqueue([job("calm"), sampleJob({ queue: name })], 1_200);
    expect(await store().jobs.listLanes(name, 1_100)).toEqual([
      { lane: "busy", due_in: -100, org_id: "" },
      { lane: "", due_in: 100, org_id: "" },
      { lane: "calm", due_in: 100, org_id: "" },
    ]);
    const claim = (lane: string, limit: number) => store().jobs.claim(name, "n", 1_200, 500, limit, lane);
    expect((await claim("busy", 2)).map((job) => job.lane)).toEqual(["busy", "busy"]);
    expect((await claim("calm", 9)).map((job) => job.lane)).toEqual(["calm"]);
    expect(await claim("calm", 9)).toEqual([]);
    expect(await store().jobs.listLanes(name, 1_200)).toEqual([
      { lane: "busy", due_in: -200, org_id: "" },
      { lane: "", due_in: 0, org_id: "" },
      { lane: "calm", due_in: 500, org_id: "" },
    ]);
    expect(await store().jobs.claim(name, "n", 1_200, 500, 9)).toHaveLength(4);
  });

  test("reserves jobs once, and leases them when their calls are opened", async () => {
    const scope = freshOrg();
    const name = newQueueName();
    const enqueued = Array.from({ length: 4 }, () => sampleJob({ queue: name, lane: "l", scope }));
    await store().jobs.enqueue(enqueued, 1_000);
    const held = new Set<string>();
    const reserve = async (node: string, limit: number) => {
      const jobs = await store().jobs.reserve(name, node, 1_000, 60_000, limit, "l", false, held);
      for (const { id } of jobs) held.add(id);
      return jobs;
    };
    const [first] = await reserve("n1", 1);
    expect(first).toMatchObject({ attempt: 1, fence: 1 });
    const [released, dropped, failed, ...more] = await reserve("n1", 5);
    expect(more).toEqual([]);
    expect(held.size).toBe(4);
    expect(await reserve("n1", 5)).toEqual([]);
    const hold = { id: first!.id, fence: 1, leased_until: 61_000 };
    const row = sampleInvocation({ ...scope, node_id: "n1" });
    await store().invocations.open(row, { records: {}, job: hold });
    const started = { state: "leased", attempt: 1, fence: 1, invocation_id: row.id };
    expect(await store().jobs.get(first!.id)).toMatchObject(started);
    // Jobs that were not started can also be released, dropped and failed.
    expect(await store().jobs.release(released!.id, 1, 1_000, 500)).toBe(true);
    expect(await store().jobs.get(released!.id)).toMatchObject({ attempt: 0, state: "ready", run_at: 1_500 });
    expect(await store().jobs.complete(dropped!.id, 1, 1_000)).toBe(true);
    expect(await store().jobs.get(dropped!.id)).toMatchObject({ state: "done" });
    expect(await store().jobs.fail(failed!.id, 1, "no", 1_000, 700)).toBe(true);
    expect(await store().jobs.get(failed!.id)).toMatchObject({ attempt: 1, state: "ready", run_at: 1_700 });
    expect(await store().jobs.releaseOrphans(name, "n2", 1_000)).toBe(1);
    const stale = store().invocations.open(sampleInvocation(scope), { records: {}, job: hold });
    await expect(stale).rejects.toMatchObject({ code: "delivery.taken_over" });
    held.clear();
    expect(await reserve("n2", 5)).toMatchObject([{ id: first!.id, attempt: 2, fence: 2 }]);
  });

  test("does not count an attempt whose call was opened but never ran", async () => {
    const scope = freshOrg();
    const name = newQueueName();
    await store().jobs.enqueue([sampleJob({ queue: name, scope, max_attempts: 1 })], 1_000);
    const [job] = await store().jobs.claim(name, "n1", 1_000, 60_000, 1);
    const hold = { id: job!.id, fence: job!.fence };
    await store().invocations.open(sampleInvocation(scope), { records: {}, job: hold });
    expect(await store().jobs.release(job!.id, job!.fence, 1_000, 0, "never_ran")).toBe(true);
    expect(await store().jobs.get(job!.id)).toMatchObject({ attempt: 0, state: "ready", run_at: 1_000 });
    expect(await store().jobs.release(job!.id, job!.fence, 1_000, 0, "never_ran")).toBe(false);
    const [again] = await store().jobs.claim(name, "n1", 1_000, 60_000, 1);
    expect(again).toMatchObject({ attempt: 1, fence: job!.fence + 1 });
    // The new attempt has not started as a call, so a second release undoes only this one.
    expect(await store().jobs.release(job!.id, again!.fence, 1_000, 0)).toBe(true);
    expect(await store().jobs.get(job!.id)).toMatchObject({ attempt: 0 });
  });

  test("counts an attempt when its call is opened, but not one that was released before", async () => {
    const scope = freshOrg();
    const name = newQueueName();
    const jobs = [sampleJob({ queue: name, scope }), sampleJob({ queue: name, scope })];
    await store().jobs.enqueue(jobs, 1_000);
    const [first, second] = await store().jobs.claim(name, "n1", 1_000, 60_000, 5);
    const row = sampleInvocation(scope);
    await store().invocations.open(row, { records: {}, job: { id: first!.id, fence: first!.fence } });
    expect(await store().jobs.get(first!.id)).toMatchObject({ attempt: 1, invocation_id: row.id, scope });
    expect(await store().jobs.release(second!.id, 9, 1_000, 0)).toBe(false);
    expect(await store().jobs.release(second!.id, second!.fence, 1_000, 500)).toBe(true);
    expect(await store().jobs.get(second!.id)).toMatchObject({ attempt: 0, state: "ready", run_at: 1_500 });
    // The node has stopped: its job is due long before its lease expires, and the started attempt counts.
    expect(await store().jobs.releaseOrphans(name, "n1", 1_100)).toBe(0);
    expect(await store().jobs.releaseOrphans(name, "n2", 1_100)).toBe(1);
    const [again] = await store().jobs.claim(name, "n2", 1_100, 60_000, 1);
    expect(again).toMatchObject({ id: first!.id, attempt: 2, fence: first!.fence + 1 });
    const stale = { id: first!.id, fence: first!.fence };
    const late_call = sampleInvocation(scope);
    await expect(store().invocations.open(late_call, { records: {}, job: stale })).rejects.toMatchObject({
      code: "delivery.taken_over",
    });
    expect(await store().invocations.get(scope, late_call.id)).toBeNull();
    // The old node settles its own call, which does not complete the other node's delivery.
    expect(
      await store().invocations.settle(
        row.id,
        row.fence,
        sampleSettlement(),
        {},
        { ...stale, now: 1_200, error: null },
      ),
    ).toBe(true);
    expect(await store().jobs.get(first!.id)).toMatchObject({ state: "leased" });
    const own = sampleInvocation(scope);
    const hold = { id: again!.id, fence: again!.fence };
    await store().invocations.open(own, { records: {}, job: hold });
    const done = { ...hold, now: 1_300, error: "plugin_failed: no" };
    expect(await store().invocations.settle(own.id, own.fence, sampleSettlement(), {}, done)).toBe(true);
    expect(await store().jobs.get(first!.id)).toMatchObject({
      state: "done",
      last_error: "plugin_failed: no",
      ended_at: 1_300,
    });
  });

  test("lists the jobs of a scope newest first, and discards those that are not running", async () => {
    const scope = freshOrg();
    const other = { ...scope, project_id: "proj_other" };
    const name = newQueueName();
    const jobs = [
      sampleJob({ queue: name, scope, lane: "a", group: "g" }),
      sampleJob({ queue: name, scope, lane: "a", group: "g" }),
      sampleJob({ queue: name, scope: other, lane: "b" }),
    ];
    await store().jobs.enqueue([...jobs, sampleJob({ queue: name })], 1_000);
    const list = async (...args: Parameters<Store["jobs"]["list"]>) =>
      (await store().jobs.list(...args)).items.map(({ id }) => id);
    const newest = jobs.map(({ id }) => id).reverse();
    expect(await list({ ...scope, project_id: null }, {}, { limit: 9 })).toEqual(newest);
    expect(await list(scope, {}, { limit: 9 })).toEqual(newest.slice(1));
    expect(await list(scope, { lane: "b" }, { limit: 9 })).toEqual([]);
    expect(await list(freshOrg(), {}, { limit: 9 })).toEqual([]);
    const page = await store().jobs.list({ ...scope, project_id: null }, {}, { limit: 2 });
    expect(await list({ ...scope, project_id: null }, {}, { limit: 2, after: page.next! })).toEqual([
      newest[2],
    ]);
    expect(await store().jobs.discard(jobs[0]!.id, 1_100)).toBe(true);
    expect(await store().jobs.discard(jobs[0]!.id, 1_100)).toBe(false);
    // The next job of the group is due, and a running one cannot be discarded.
    const [next] = await store().jobs.claim(name, "n", 1_200, 100, 1, "a");
    expect(next!.id).toBe(jobs[1]!.id);
    expect(await store().jobs.discard(next!.id, 1_200)).toBe(false);
    await store().jobs.fail(next!.id, next!.fence, "no", 1_200, null);
    expect(await list(scope, { state: "dead" }, { limit: 9 })).toEqual([jobs[1]!.id]);
    expect(await list(scope, { state: "discarded" }, { limit: 9 })).toEqual([jobs[0]!.id]);
    expect(await store().jobs.discard(next!.id, 1_300)).toBe(true);
  });

  test("loses no job and runs one job of a group at a time with concurrent enqueuers and workers", async () => {
    const name = newQueueName();
    const jobs = Array.from({ length: 30 }, () => sampleJob({ queue: name, group: "g" }));
    const enqueued = Promise.all(jobs.map((job) => store().jobs.enqueue([job], 1_000)));
    let running = 0;
    let peak = 0;
    const done: string[] = [];
    const work = async (node: string): Promise<void> => {
      while (done.length < jobs.length) {
        const claimed = await store().jobs.claim(name, node, 5_000, 1_000_000, 3);
        running += claimed.length;
        peak = Math.max(peak, running);
        for (const job of claimed) {
          done.push(job.id);
          // Meanwhile, the other workers try to claim the next job.
          await new Promise((resolve) => setImmediate(resolve));
          running--;
          await store().jobs.complete(job.id, job.fence, 1_100);
        }
      }
    };
    await Promise.all([work("a"), work("b"), work("c")]);
    await enqueued;
    expect(peak).toBe(1);
    expect(done).toHaveLength(30);
    expect(new Set(done).size).toBe(30);
  });

  test("gives a lease to one holder at a time, with an increasing fencing token", async () => {
    const name = newQueueName();
    const fences = await Promise.all(
      Array.from({ length: 10 }, (_, n) => store().leases.acquire(name, `h${n}`, 0, 100)),
    );
    expect(fences.filter((fence) => fence !== null)).toEqual([1]);
    const holder = `h${fences.indexOf(1)}`;
    expect(await store().leases.acquire(name, holder, 50, 100)).toBe(2);
    expect(await store().leases.acquire(name, "other", 149, 100)).toBeNull();
    expect(await store().leases.renew([name, "none"], holder, 149, 100)).toBe(1);
    expect(await store().leases.renew([name], "other", 149, 100)).toBe(0);
    expect(await store().leases.acquire(name, "other", 249, 100)).toBe(3);
    expect(await store().leases.renew([name], holder, 250, 100)).toBe(0);
    expect(await store().leases.release(name, holder)).toBe(false);
    expect(await store().leases.release(name, "other")).toBe(true);
    expect(await store().leases.acquire(name, holder, 250, 100)).toBe(4);
  });

  verifies("bind.concurrency", "never gives concurrent callers more slots than the maximum", async () => {
    const name = newQueueName();
    const acquireSlot = () => store().leases.acquireSlot(name, 4, "node", 0, 1_000);
    const slots = (await Promise.all(Array.from({ length: 30 }, acquireSlot))).filter(
      (slot) => slot !== null,
    );
    expect(slots.map((slot) => slot.name).sort()).toEqual([0, 1, 2, 3].map((n) => `${name}#${n}`));
    expect(await acquireSlot()).toBeNull();
    expect(await store().leases.release(slots[0]!.name, "node")).toBe(true);
    const again = await acquireSlot();
    expect(again).toEqual({ name: slots[0]!.name, fence: slots[0]!.fence + 1 });
    expect(await store().leases.acquireSlot(name, 2, "node", 0, 1_000)).toBeNull();
    expect((await store().leases.acquireSlot(name, 4, "node", 1_000, 1_000))?.fence).toBeGreaterThan(1);
  });
}
