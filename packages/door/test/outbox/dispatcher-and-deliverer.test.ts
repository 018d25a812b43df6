/** Which hooks receive which events, and how their jobs are grouped and retried. The store is in memory. */
import { BackplaneError, createIdSource, type Invocation } from "@backplane/contract";
import {
  type BoundPackage,
  hostPolicy,
  type Job,
  type KernelDeps,
  type NewJob,
  type OutboxEvent,
} from "@backplane/ports";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { Deliverer } from "../../src/outbox/deliver.ts";
import { Dispatcher } from "../../src/outbox/dispatcher.ts";

type Hook = BoundPackage & { types: string[] };

function createHook(
  binding_id: string,
  project_id: string | null,
  types: string[],
  export_id = binding_id,
): Hook {
  const binding = {
    binding_id,
    package_id: "acme/devkit",
    package_version: "1.0.0",
    export_id,
    scope: { org_id: "org_local", project_id },
    status: "active",
    policy: {},
    rollout: { traffic_percent: 100 },
  };
  return { binding, package: { manifest: { exports: [] } }, types } as unknown as Hook;
}

function createEvent(
  seq: number,
  type: string,
  subject: string,
  project_id: string | null = "proj_a",
): OutboxEvent {
  return {
    seq,
    id: `evt_${seq}`,
    type,
    org_id: "org_local",
    project_id,
    occurred_at: "2026-01-01T00:00:00.000Z",
    subject: { kind: "invocation", id: subject },
    summary: { n: seq },
    from_hook: false,
  } as OutboxEvent;
}

function createBaseDeps(): Pick<KernelDeps, "clock" | "ids" | "node_id" | "host" | "log" | "random"> {
  const clock = new TestClock();
  onTestFinished(() => clock.halt());
  const random = (bytes: Uint8Array) => void bytes.fill(128);
  return {
    clock,
    ids: createIdSource(
      () => clock.now(),
      (bytes) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>),
    ),
    node_id: "node_1",
    host: hostPolicy({
      deliveries: { concurrency: 2, per_binding: 2, max_attempts: 3, base_ms: 100, max_ms: 500 },
    }),
    log: createTestLogger(() => {}),
    random,
  };
}

function createDispatcher(events: OutboxEvent[], hooks: Hook[]) {
  const jobs: NewJob[] = [];
  /** The number of jobs in each write. */
  const writes: number[] = [];
  const state = { cursor: 0, notify: () => {}, beforeSummary: () => {}, beforeAdvance: () => {} };
  const eventsAfter = (after: number, limit: number) =>
    events.filter(({ seq }) => seq > after).slice(0, limit);
  const store = {
    outbox: {
      onAppended: (listener: () => void) => {
        state.notify = listener;
        return () => {};
      },
      getCursor: async () => state.cursor,
      summarize: async (after: number, limit: number) => {
        state.beforeSummary();
        const events = eventsAfter(after, limit);
        return events.length === 0
          ? null
          : { count: events.length, last_seq: events.at(-1)!.seq, kinds: events };
      },
      read: async (after: number, limit: number) => eventsAfter(after, limit),
      advance: async (_consumer: string, from: number, to: number, more: NewJob[]) => {
        state.beforeAdvance();
        if (from !== state.cursor) return null;
        state.cursor = to;
        jobs.push(...more);
        writes.push(more.length);
        return [];
      },
    },
    bindings: {
      findHooks: async ({ project_id }: { project_id: string | null }, type: string) =>
        hooks.filter(
          ({ binding: { scope }, types }) =>
            types.includes(type) && (scope.project_id === null || scope.project_id === project_id),
        ),
    },
    leases: { acquire: async () => 1, release: async () => true },
  };
  const deps = createBaseDeps();
  const dispatcher = new Dispatcher({ ...deps, store } as unknown as KernelDeps, () => {});
  onTestFinished(() => dispatcher.stop());
  return { dispatcher, jobs, writes, state, clock: deps.clock as TestClock };
}

async function dispatch(events: OutboxEvent[], hooks: Hook[]): Promise<NewJob[]> {
  const { dispatcher, jobs, state } = createDispatcher(events, hooks);
  await dispatcher.start();
  await expect.poll(() => state.cursor).toBe(events.at(-1)!.seq);
  return jobs;
}

const SETTLED = "invocation.settled";
const CHANGED = "binding.changed";
const listTargets = (jobs: NewJob[]) =>
  jobs.map(({ payload }) => {
    const { binding_id, project_id, event: delivered } = payload as Record<string, unknown>;
    return [binding_id, project_id, (delivered as OutboxEvent).subject.id];
  });

describe("the dispatcher", () => {
  test("delivers to every hook once, and prefers the binding of the project to that of the org", async () => {
    const hooks = [
      createHook("bind_org", null, [SETTLED], "notify"),
      createHook("bind_own", "proj_a", [SETTLED], "notify"),
      createHook("bind_other", null, [SETTLED], "log"),
    ];
    const jobs = await dispatch(
      [createEvent(1, SETTLED, "inv_1"), createEvent(2, SETTLED, "inv_2", "proj_b")],
      hooks,
    );
    expect(listTargets(jobs)).toEqual([
      ["bind_own", "proj_a", "inv_1"],
      ["bind_other", "proj_a", "inv_1"],
      // An org-wide hook acts in the project of the event.
      ["bind_org", "proj_b", "inv_2"],
      ["bind_other", "proj_b", "inv_2"],
    ]);
  });

  test("delivers to the hooks that subscribe to the type of the event in its project", async () => {
    const hooks = [
      createHook("bind_a", "proj_a", [SETTLED]),
      createHook("bind_b", "proj_b", [CHANGED, SETTLED]),
    ];
    const jobs = await dispatch(
      [
        createEvent(1, SETTLED, "inv_1"),
        createEvent(2, CHANGED, "inv_2"),
        createEvent(3, CHANGED, "inv_3", "proj_b"),
        createEvent(4, SETTLED, "inv_4", "proj_b"),
      ],
      hooks,
    );
    expect(listTargets(jobs).map(([binding, , subject]) => [binding, subject])).toEqual([
      ["bind_a", "inv_1"],
      ["bind_b", "inv_3"],
      ["bind_b", "inv_4"],
    ]);
  });

  test("delivers no event that a hook's own call caused", async () => {
    const hook_event = { ...createEvent(1, SETTLED, "inv_1"), from_hook: true };
    const jobs = await dispatch(
      [hook_event, createEvent(2, SETTLED, "inv_2")],
      [createHook("bind_1", null, [SETTLED])],
    );
    expect(listTargets(jobs).map(([, , subject]) => subject)).toEqual(["inv_2"]);
  });

  test("creates jobs with a lane for each binding, a group for each subject, and the event as payload", async () => {
    const hooks = [createHook("bind_1", null, [SETTLED]), createHook("bind_2", null, [SETTLED])];
    const events = [
      createEvent(1, SETTLED, "inv_1"),
      createEvent(2, SETTLED, "inv_1"),
      createEvent(3, SETTLED, "inv_2"),
    ];
    const jobs = await dispatch(events, hooks);
    const groupsOf = (lane: string) => jobs.filter((job) => job.lane === lane).map(({ group }) => group);
    for (const lane of ["bind_1", "bind_2"]) {
      const [first, second, third] = groupsOf(lane);
      expect(first).toBe(second);
      expect(third).not.toBe(first);
    }
    expect(groupsOf("bind_1")[0]).not.toBe(groupsOf("bind_2")[0]);
    expect((jobs[0]!.payload as { event: unknown }).event).toEqual({
      type: SETTLED,
      occurred_at: "2026-01-01T00:00:00.000Z",
      subject: { kind: "invocation", id: "inv_1" },
      summary: { n: 1 },
      // An event without a trace gets one here, so that every attempt has the same trace.
      trace_id: expect.stringMatching(/^tr_/),
    });
  });

  test("reads more events than fit on one page", async () => {
    const events = Array.from({ length: 1_100 }, (_, n) => createEvent(n + 1, SETTLED, `inv_${n}`));
    expect(await dispatch(events, [createHook("bind_1", null, [SETTLED])])).toHaveLength(1_100);
  });

  test("enqueues many jobs in small writes, and skips events without a hook in large ones", async () => {
    const with_hook = Array.from({ length: 250 }, (_, n) => createEvent(n + 1, SETTLED, `inv_${n}`));
    const others = Array.from({ length: 700 }, (_, n) => createEvent(n + 251, CHANGED, `bind_${n}`));
    const { dispatcher, writes, state } = createDispatcher(
      [...with_hook, ...others],
      [createHook("bind_1", null, [SETTLED])],
    );
    await dispatcher.start();
    await expect.poll(() => state.cursor).toBe(950);
    expect(writes).toEqual([100, 100, 50, 0, 0]);
  });

  test("immediately dispatches events that were appended during a long pass", async () => {
    const { dispatcher, state, clock } = createDispatcher([createEvent(1, SETTLED, "inv_1")], []);
    const after = vi.spyOn(clock, "after");
    state.beforeSummary = () => {
      state.beforeSummary = () => {};
      clock.monotonic_offset += 1_000;
      state.notify();
    };
    await dispatcher.start();
    await expect.poll(() => after.mock.calls.length).toBe(1);
    expect(after.mock.calls[0]![0]).toBe(0);
  });

  test("continues at the new cursor after another node has moved it", async () => {
    const events = [1, 2, 3, 4, 5].map((seq) => createEvent(seq, SETTLED, `inv_${seq}`));
    const { dispatcher, jobs, state } = createDispatcher(events, [createHook("bind_1", null, [SETTLED])]);
    state.beforeAdvance = () => {
      state.beforeAdvance = () => {};
      state.cursor = 3;
    };
    await dispatcher.start();
    await expect.poll(() => state.cursor).toBe(5);
    expect(listTargets(jobs).map(([, , subject]) => subject)).toEqual(["inv_4", "inv_5"]);
  });

  test("repeats a pass that failed or during which events were appended", async () => {
    const events = [createEvent(1, SETTLED, "inv_1")];
    const { dispatcher, jobs, state } = createDispatcher(events, [createHook("bind_1", null, [SETTLED])]);
    let summaries = 0;
    state.beforeSummary = () => {
      if (++summaries === 1) throw new Error("the store is unavailable");
    };
    state.beforeAdvance = () => {
      if (events.length > 1) return;
      events.push(createEvent(2, SETTLED, "inv_2"));
      state.notify();
    };
    await dispatcher.start();
    await expect.poll(() => jobs.length).toBe(2);
  });
});

describe("the deliverer", () => {
  interface Reports {
    discarded: string[];
    released: string[];
    failed: { id: string; retry_ms: number }[];
  }

  function createDeliverer(
    jobs: Job[],
    call: (job: string) => Promise<Partial<Invocation>>,
    { shared = true, reads = [] as number[], deps = {} as Partial<KernelDeps> } = {},
  ) {
    const reports: Reports = { discarded: [], released: [], failed: [] };
    const due_jobs = [...jobs];
    const store = {
      shared,
      jobs: {
        listLanes: async () =>
          [...new Set(due_jobs.map(({ lane }) => lane))].map((lane) => ({ lane, due_in: 0, org_id: "" })),
        reserve: async (
          _queue: string,
          _node: string,
          _now: number,
          _ms: number,
          limit: number,
          lane: string,
        ) => {
          const reserved = due_jobs
            .filter((job) => job.lane === lane)
            .slice(0, limit)
            .map((job) => due_jobs.splice(due_jobs.indexOf(job), 1)[0]!);
          reads.push(reserved.length);
          return reserved;
        },
        discardHeld: async (id: string) => reports.discarded.push(id),
        release: async (id: string) => reports.released.push(id),
        fail: async (id: string, _fence: number, _error: string, _now: number, retry_ms: number) =>
          reports.failed.push({ id, retry_ms }),
      },
    };
    const lease = { mayTakeOver: () => true };
    const deliverer = new Deliverer(
      { ...createBaseDeps(), ...deps, store } as unknown as KernelDeps,
      lease,
      async (request) =>
        ({
          id: "inv_1",
          settled: call(request.body.binding_id!) as Promise<Invocation>,
        }) as never,
    );
    // Not awaited: a delivery that a failed test left open never ends.
    onTestFinished(() => void deliverer.stop());
    deliverer.start();
    return { ...reports, due_jobs, add: (due: Job[]) => deliverer.add(due) };
  }

  const createJob = (id: string, attempt = 1, occurred_at = Date.now()): Job =>
    ({
      id,
      lane: id,
      attempt,
      fence: 1,
      payload: {
        delivery_id: `del_${id}`,
        binding_id: id,
        event: { occurred_at: new Date(occurred_at).toISOString() },
      },
    }) as unknown as Job;

  test("discards jobs of removed hooks, keeps those of inactive hooks and retries the others with growing delays", async () => {
    const jobs = [
      createJob("gone"),
      createJob("off"),
      {
        ...createJob("share"),
        payload: { ...(createJob("share").payload as object), share_of: "main" },
      } as Job,
      ...[1, 2, 3, 4, 9].map((attempt) => createJob(`try${attempt}`, attempt)),
    ];
    const called: string[] = [];
    const reports = createDeliverer(jobs, async (id) => {
      called.push(id);
      if (id === "gone" || id === "share") throw new BackplaneError("binding.not_found");
      if (id === "off") throw new BackplaneError("binding.not_active");
      if (id === "main") return { status: "succeeded" };
      return { status: "failed", error: { code: "crashed", message: "" } };
    });
    await expect.poll(() => reports.failed.length).toBe(5);
    expect(reports.discarded).toEqual(["gone"]);
    expect(reports.released).toEqual(["off"]);
    // The share was removed, so its binding gets the delivery.
    expect(called).toContain("main");
    expect(Object.fromEntries(reports.failed.map(({ id, retry_ms }) => [id, retry_ms]))).toEqual({
      try1: 100,
      try2: 200,
      try3: 400,
      try4: 500,
      try9: 500,
    });
  });

  verifies(
    "hook.contract",
    "spreads the delay of a retry by a quarter in both directions, at random",
    async () => {
      const delayOf = async (byte: number) => {
        const random = (bytes: Uint8Array) => void bytes.fill(byte);
        const call = async () => ({ status: "failed", error: { code: "crashed", message: "" } }) as const;
        const { failed } = createDeliverer([createJob("a")], call, { deps: { random } });
        await expect.poll(() => failed.length).toBe(1);
        return failed[0]!.retry_ms;
      };
      expect([await delayOf(0), await delayOf(64), await delayOf(192)]).toEqual([75, 87.5, 112.5]);
      expect(await delayOf(255)).toBeCloseTo(125, 0);
    },
  );

  test("discards a refused delivery only after the retention of dead deliveries", async () => {
    const { clock, host } = createBaseDeps();
    const kept_ms = host.retention.dead_jobs_ms;
    const jobs = [
      createJob("older", 1, clock.now() - kept_ms - 60_000),
      createJob("younger", 1, clock.now() - kept_ms + 60_000),
    ];
    const refuse = async () => {
      throw new BackplaneError("authority.project_archived");
    };
    const { discarded, released } = createDeliverer(jobs, refuse);
    await expect.poll(() => discarded.length + released.length).toBe(2);
    expect({ discarded, released }).toEqual({ discarded: ["older"], released: ["younger"] });
    const forever = hostPolicy({ retention: { ...host.retention, dead_jobs_ms: 0 } });
    const kept = createDeliverer([jobs[0]!], refuse, { deps: { host: forever } });
    await expect.poll(() => kept.discarded.length + kept.released.length).toBe(1);
    expect(kept.released).toEqual(["older"]);
  });

  test("limits concurrent deliveries and starts the next when one ends", async () => {
    const ends: (() => void)[] = [];
    const reports = createDeliverer(
      // Three of them are in one lane, whose limit is the same as the limit of all lanes together.
      [createJob("a"), createJob("b"), { ...createJob("c"), lane: "b" }, { ...createJob("d"), lane: "b" }],
      async () => {
        await new Promise<void>((resolve) => ends.push(resolve));
        return { status: "succeeded", error: null };
      },
    );
    await expect.poll(() => ends.length).toBe(2);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(ends).toHaveLength(2);
    ends[0]!();
    await expect.poll(() => ends.length).toBe(3);
    ends[1]!();
    await expect.poll(() => ends.length).toBe(4);
    for (const end of ends) end();
    // The settlement of the call has completed each job.
    expect(reports).toMatchObject({ discarded: [], released: [], failed: [] });
  });

  test.each([
    { queue: "a queue that one gateway owns", shared: false, first: 34 },
    { queue: "a queue that gateways share", shared: true, first: 4 },
  ])("first reserves $first jobs of a lane in $queue", async ({ shared, first }) => {
    const reads: number[] = [];
    const jobs = Array.from({ length: 50 }, (_, n) => ({ ...createJob(`j${n}`), lane: "a" }));
    let started = 0;
    const call = () => {
      started++;
      return new Promise<never>(() => {});
    };
    createDeliverer(jobs, call, { shared, reads });
    await expect.poll(() => started).toBe(2);
    expect(reads).toEqual([first]);
  });

  const createJobs = (lane: string, from: number, count: number) =>
    Array.from({ length: count }, (_, n) => ({ ...createJob(`${lane}${from + n}`), lane }));

  test("starts new jobs without a read only while all due jobs of their lane are reserved", async () => {
    const reads: number[] = [];
    const started: string[] = [];
    const call = async (id: string) => {
      started.push(id);
      return { status: "succeeded", error: null } as const;
    };
    const { add } = createDeliverer(createJobs("a", 0, 1), call, { shared: false, reads });
    // The lane of this job was never read, so older jobs may be due.
    add(createJobs("b", 0, 1));
    await expect.poll(() => started).toEqual(["a0"]);
    const read_count = reads.length;
    add(createJobs("a", 1, 128));
    await expect.poll(() => started.length).toBe(129);
    expect(reads.length).toBe(read_count);
    // A lane accepts 64 new jobs for each job that may run at the same time. Reads find the other jobs, in the order in
    // which they are due.
    add(createJobs("a", 129, 1));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(started).not.toContain("a129");
  });

  test("starts a new job once even if a read has already found it", async () => {
    const started: string[] = [];
    const gate = Promise.withResolvers<void>();
    const call = async (id: string) => {
      started.push(id);
      await gate.promise;
      return { status: "succeeded", error: null } as const;
    };
    const { add } = createDeliverer(createJobs("a", 0, 3), call, { shared: false });
    await expect.poll(() => started.length).toBe(2);
    add(createJobs("a", 0, 3));
    add(createJobs("a", 3, 1));
    gate.resolve();
    await expect.poll(() => started.includes("a3")).toBe(true);
    expect(started).toEqual(["a0", "a1", "a2", "a3"]);
  });

  test("reads the jobs of other lanes while a lane has enough of its own", async () => {
    const reads: number[] = [];
    const jobs = createJobs("a", 0, 50);
    const call = () => new Promise<never>(() => {});
    const { add, due_jobs } = createDeliverer(jobs, call, { shared: false, reads });
    await expect.poll(() => reads).toEqual([34]);
    due_jobs.push(...createJobs("b", 0, 1));
    add([]);
    await expect.poll(() => reads).toEqual([34, 1]);
  });
});
