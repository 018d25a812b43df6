import type { Store } from "@backplane/ports";
import { openPostgresStore } from "@backplane/store";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { storeContract } from "../stores/contract.ts";
import { sampleRun, tape } from "../support/sample-runs.ts";
import { freshKey, message, newChain, newSession, start, summary } from "../support/sample-sessions.ts";
import {
  ids,
  sampleAudit,
  sampleBinding,
  sampleEvent,
  sampleInvocation,
  sampleJob,
  samplePackage,
  sampleSettlement,
} from "../support/samples.ts";
import { freshOrg, type Subject } from "../support/subject.ts";

let server: TestPostgres;
let direct: pg.Client;
let subject: Subject;
let second: Store;

beforeAll(async () => {
  server = await startPostgres();
  const schema = "gateway";
  // Both gateways start at the same time on an empty database; a lock serializes the migrations.
  const [store, other] = await Promise.all([
    openPostgresStore({ url: server.url, schema, caller_clock: true }),
    openPostgresStore({ url: server.url, schema, caller_clock: true }),
  ]);
  second = other;
  direct = new pg.Client({ connectionString: server.url, options: "-c search_path=gateway" });
  await direct.connect();
  subject = {
    store,
    row_checks: false,
    async tamper(text) {
      await direct.query(text);
    },
  };
});

afterAll(async () => {
  await direct?.end();
  await second?.close();
  await subject?.store.close();
  await server?.stop();
});

describe("PostgreSQL", () => {
  storeContract(() => subject);
});

describe("two gateways on one database", () => {
  verifies("bind.concurrency", "never hold more slots than the maximum", async () => {
    const name = ids.next("request");
    const acquireSlot = (store: Store, n: number) => store.leases.acquireSlot(name, 5, `h${n}`, 0, 1_000);
    const slots = await Promise.all(
      Array.from({ length: 60 }, (_, n) => acquireSlot(n % 2 === 0 ? subject.store : second, n)),
    );
    const held = slots.filter((slot) => slot !== null).map((slot) => slot.name);
    expect(new Set(held).size).toBe(held.length);
    expect(held.length).toBeLessThanOrEqual(5);
    let slot_count = held.length;
    while ((await acquireSlot(second, 99)) !== null) slot_count++;
    expect(slot_count).toBe(5);
  });

  test("claim each job once", async () => {
    const queue = ids.next("request");
    await subject.store.jobs.enqueue(
      Array.from({ length: 100 }, () => sampleJob({ queue })),
      1_000,
    );
    const claimed: string[] = [];
    const work = async (store: Store): Promise<void> => {
      for (;;) {
        const jobs = await store.jobs.claim(queue, "n", 2_000, 1_000_000, 7);
        claimed.push(...jobs.map((job) => job.id));
        if (jobs.length === 0 && (await store.jobs.listLanes(queue, 2_000))[0]!.due_in > 0) return;
      }
    };
    await Promise.all([subject.store, second, subject.store, second].map(work));
    expect(claimed).toHaveLength(100);
    expect(new Set(claimed).size).toBe(100);
  });

  verifies("inv.record", "settle a row once and see each other's writes immediately", async () => {
    const scope = freshOrg();
    for (let n = 0; n < 10; n++) {
      const row = sampleInvocation(scope);
      await subject.store.invocations.open(row, { records: {} });
      expect(await second.invocations.get(scope, row.id)).toEqual(row);
      const wins = await Promise.all(
        [subject.store, second].map((store) => store.invocations.settle(row.id, 1, sampleSettlement(), {})),
      );
      expect(wins.filter(Boolean)).toHaveLength(1);
    }
  });

  test("take over a row only when the lease of its node has expired", async () => {
    const scope = freshOrg();
    const node = ids.next("node");
    const now = Date.now();
    await second.leases.acquire(`node/${node}`, node, now, 1_000);
    const row = sampleInvocation({ ...scope, node_id: node });
    await second.invocations.open(row, { records: {} });
    const claim = async (at: number) =>
      (await subject.store.invocations.claimOrphans("node_x", at, 10_000)).some(
        (claimed) => claimed.id === row.id,
      );
    expect(await claim(now + 999)).toBe(false);
    expect(await claim(now + 1_000)).toBe(true);
    expect(await claim(now + 1_000)).toBe(false);
  });

  test("take over a run only when the lease of its node has expired", async () => {
    const key = freshKey();
    const node = ids.next("node");
    const now = Date.now();
    await second.leases.acquire(`node/${node}`, node, now, 1_000);
    await second.sessions.create(newSession(key), newChain(), [start], {});
    const run = sampleRun(key, { node_id: node });
    await second.runs.start(run, tape(key, "hello"), 1, {});
    const claim = async (at: number) =>
      (await subject.store.runs.claimOrphans("node_x", at, 10_000)).some((claimed) => claimed.id === run.id);
    expect(await claim(now + 999)).toBe(false);
    expect(await claim(now + 1_000)).toBe(true);
    expect(await claim(now + 1_000)).toBe(false);
  });

  test("never leave a binding without its package when one gateway binds the package and the other removes it", async () => {
    for (let n = 0; n < 10; n++) {
      const scope = freshOrg();
      const package_ = samplePackage({ org_id: scope.org_id });
      await subject.store.packages.insert(package_, {});
      const binding = sampleBinding({ scope });
      const [bound, removed] = await Promise.allSettled([
        subject.store.bindings.create(binding, {}),
        second.packages.remove(scope.org_id, package_.id, {}),
      ]);
      const stored = await subject.store.bindings.get(scope, binding.binding_id);
      if (removed.status === "fulfilled") {
        expect(bound).toMatchObject({ reason: { code: "package.not_found" } });
        expect(stored).toBeNull();
      } else {
        expect(removed.reason).toMatchObject({ code: "package.bound" });
        expect(stored?.package).toEqual(package_);
      }
    }
  });

  test("write one audit chain together", async () => {
    await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        (n % 2 === 0 ? subject.store : second).audit.append(sampleAudit()),
      ),
    );
    expect(await second.audit.verify()).toBeNull();
  });

  verifies("tape.ids", "append to one tape with unique ids, and never to a compacted chain", async () => {
    const key = freshKey();
    const { head_chain_id } = await subject.store.sessions.create(newSession(key), newChain(), [start], {});
    const stores = [subject.store, second];
    await Promise.all(
      Array.from({ length: 40 }, (_, n) => stores[n % 2]!.sessions.append(key, [message("a"), message("b")])),
    );
    let chain_id = head_chain_id;
    let compacted = 0;
    for (let n = 0; n < 20; n++) {
      const { last_entry_id } = (await second.sessions.getChain(key.scope, chain_id))!;
      const [created] = await Promise.all([
        second.sessions.compact(key, { chain_id, last_entry_id }, newChain(), [summary], {}),
        subject.store.sessions.append(key, [message("c")]),
      ]);
      if (created === null) continue;
      compacted++;
      // Concurrent entries are on the new chain, or made the compaction fail.
      const previous_chain = await second.sessions.getChain(key.scope, chain_id);
      expect(previous_chain?.last_entry_id).toBe(created.fork_entry_id);
      chain_id = created.id;
    }
    const entries = await second.sessions.listEntries(key.scope, chain_id, 0, 1_000);
    expect(entries.map((entry) => entry.id)).toEqual(
      Array.from({ length: 1 + 80 + 20 + compacted }, (_, n) => n + 1),
    );
    expect(await second.sessions.verify(key.scope, chain_id)).toBeNull();
  });

  test("notify a listener of the other gateway's events", async () => {
    const notified = new Promise<void>((resolve) => {
      const stop = second.outbox.onAppended(() => {
        stop();
        resolve();
      });
    });
    const publishEvent = async () => {
      const row = sampleInvocation(freshOrg());
      await subject.store.invocations.open(row, { records: { events: [sampleEvent(row.id)] } });
    };
    // The first poll only reads the current position, so it may not report an early event.
    const timer = setInterval(() => void publishEvent(), 100);
    await notified.finally(() => clearInterval(timer));
    expect((await second.outbox.read(0, 1)).length).toBe(1);
  });
});

test("never skips an event whose transaction commits late", async () => {
  const { store } = subject;
  const scope = freshOrg();
  const publishEvent = async (name: string) =>
    store.invocations.open(sampleInvocation(scope), { records: { events: [sampleEvent(name, { scope })] } });
  await publishEvent("first");
  // A slow transaction inserts its event before others that commit earlier.
  await direct.query("begin");
  await direct.query(
    `insert into outbox (id, type, org_id, project_id, occurred_at, subject_kind, subject_id, summary, from_hook)
      values ('late', 'run.started', $1, $2, 0, 'run', 'late', '{}', 0)`,
    [scope.org_id, scope.project_id],
  );
  await publishEvent("second");
  const read = async (after: number) => store.outbox.read(after, 100, scope);
  const early = await read(0);
  expect(early.map((event) => event.subject.id)).toEqual(["first", "second"]);
  await direct.query("commit");
  await publishEvent("third");
  const rest = await read(early.at(-1)!.seq);
  expect(rest.map((event) => event.subject.id)).toEqual(["late", "third"]);
});

test("gives each event one unique number with concurrent readers", async () => {
  const scope = freshOrg();
  await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const row = sampleInvocation(scope);
      await subject.store.invocations.open(row, { records: { events: [sampleEvent(`e${n}`, { scope })] } });
      await (n % 2 === 0 ? subject.store : second).outbox.read(0, 10_000, scope);
    }),
  );
  const seqs = (await second.outbox.read(0, 1_000, scope)).map((event) => event.seq);
  expect(seqs).toHaveLength(50);
  expect(new Set(seqs).size).toBe(50);
});

test("refuses a newer schema, and reports an unreachable server as store.unavailable", async () => {
  const url = server.url;
  const newer = { version: 999, name: "future", statements: ["create table future (one {int})"] };
  const store = await openPostgresStore({ url, schema: "newer", migrations: [newer] });
  await store.close();
  await expect(openPostgresStore({ url, schema: "newer" })).rejects.toMatchObject({
    code: "store.schema_newer",
    details: { found: 999 },
  });
  await expect(openPostgresStore({ url: "postgresql://x@127.0.0.1:1/none" })).rejects.toMatchObject({
    code: "store.unavailable",
  });
});

test("reports lost connections as store.unavailable, and writes again afterwards", async () => {
  const { store } = subject;
  const scope = freshOrg();
  const writes = Promise.allSettled(
    Array.from({ length: 50 }, () => store.invocations.open(sampleInvocation(scope), { records: {} })),
  );
  await direct.query("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()");
  for (const result of await writes) {
    if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "store.unavailable" });
  }
  await expect
    .poll(() =>
      store.invocations.open(sampleInvocation(scope), { records: {} }).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
  await store.ping();
});
