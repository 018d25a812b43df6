/**
 * Deliveries/s of stored events to a hook in a worker process, compared with direct calls to the same export through
 * the door and with open-source job queues, and the time from an event to the start of its call in an idle gateway. All
 * use databases on disk and real processes.
 */
import { randomFillSync } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createIdSource, type JsonObject } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { type Caller, hostPolicy, type Runner, type Store } from "@backplane/ports";
import { createRunner } from "@backplane/runner";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createPackageImporter, createSchemas, openContentStore, openPackageImages } from "@backplane/supply";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { buildEchoPackage } from "../../fixtures/echo-package.ts";
import { createInvocationRow } from "../../fixtures/invocation-row.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median, percentile } from "../../measuring/statistics.ts";
import { openQueuePeers } from "../../peers/queue-peers.ts";

const IN_FLIGHT = 16;
const DELIVERIES = 2_000;
const REPETITIONS = 5;
const LATENCY_SAMPLES = 50;
const scope = { org_id: "org_local", project_id: "proj_default" };
const caller: Caller = { actor: "admin", scope, role: "owner", scopes: ["admin"], admin: true };

export async function measureHooksDelivery(): Promise<Row[]> {
  const bench = await createBench();
  const queues = await openQueuePeers(IN_FLIGHT);
  try {
    await bench.callDirectly(DELIVERIES / 4);
    await bench.deliver(DELIVERIES / 4);
    for (const queue of queues) await queue.run(DELIVERIES / 4);
    const queue_rates = new Map<string, number[]>(queues.map(({ key }) => [key, []]));
    const rates = { delivered: [] as number[], direct: [] as number[] };
    for (let repetition = 0; repetition < REPETITIONS; repetition++) {
      rates.direct.push(await measureRate(() => bench.callDirectly(DELIVERIES)));
      rates.delivered.push(await measureRate(() => bench.deliver(DELIVERIES)));
      for (const queue of queues) {
        queue_rates.get(queue.key)!.push(await measureRate(() => queue.run(DELIVERIES)));
      }
    }
    for (const queue of queues.splice(0)) await queue.close();
    const times: number[] = [];
    for (let n = 0; n < LATENCY_SAMPLES; n++) times.push(await bench.measureTimeToCall());
    const peers = Object.fromEntries([...queue_rates].map(([key, measured]) => [key, median(measured)]));
    const metric = `deliveries/s, ${IN_FLIGHT} in flight; limit: direct calls to the hook`;
    return [
      createRow("hooks.delivery", metric, "higher", median(rates.delivered), median(rates.direct), peers),
      createRow(
        "hooks.latency",
        "ms from the event to the start of its call, p50, idle; limit: 10 ms",
        "lower",
        median(times),
        10,
        {
          p95: percentile(times, 0.95),
        },
      ),
    ];
  } finally {
    for (const queue of queues) await queue.close();
    await bench.close();
  }
}

async function measureRate(work: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await work();
  return (DELIVERIES / (performance.now() - from)) * 1000;
}

async function createBench() {
  const home = mkdtempSync(join(tmpdir(), "backplane-hooks-"));
  mkdirSync(join(home, "scratch"));
  const random = (bytes: Uint8Array) => void randomFillSync(bytes);
  const ids = createIdSource(() => clock.now(), random);
  const echo = await buildEchoPackage();
  const schemas = createSchemas();
  const content = openContentStore(join(home, "blobs"));
  const host = {
    os: process.platform === "darwin" ? "darwin" : "linux",
    arch: process.arch === "arm64" ? "arm64" : "amd64",
  } as const;
  const importer = createPackageImporter({ store: content, schemas, host });
  const files = openPackageImages({ store: content, dir: join(home, "images"), log: createTestLogger() });
  const sqlite = await openSqliteStore({ file: join(home, "store.db") });
  /** Called when a settlement that completes a delivery is on disk. */
  let onCompleted = () => {};
  const invocations: Store["invocations"] = Object.create(sqlite.invocations, {
    settle: {
      value: async (...settlement: Parameters<Store["invocations"]["settle"]>) => {
        const written = await sqlite.invocations.settle(...settlement);
        if (written && settlement[4] !== undefined) onCompleted();
        return written;
      },
    },
  });
  const store: Store = Object.create(sqlite, { invocations: { value: invocations } });
  const processes = createRunner({
    files,
    clock,
    scratch_root: join(home, "scratch"),
    host: { name: "bench", version: "1.0.0" },
    log: createTestLogger(),
  });
  /** Called when the runner receives a call. */
  let onStarted = () => {};
  const runner: Runner = Object.create(processes, {
    run: {
      value: (...call: Parameters<Runner["run"]>) => {
        onStarted();
        return processes.run(...call);
      },
    },
  });
  const kernel = createKernel({
    store,
    runner,
    importer,
    schemas,
    vault: createSecretVault([{ id: "k1", key: new Uint8Array(32).fill(7) }]),
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy({
      deliveries: { ...hostPolicy().deliveries, per_binding: IN_FLIGHT, concurrency: IN_FLIGHT },
    }),
    gateway: { base_url: () => "http://127.0.0.1:1" },
    log: createTestLogger(),
    pause: setImmediate,
  });
  await kernel.start();
  const { package: pack } = await kernel.packages.install(caller, { kind: "folder", path: echo.folder });
  const { binding_id } = await kernel.bindings.create(caller, {
    package_id: pack.package_id,
    package_version: pack.version,
    export_id: "note",
  });
  let written = 0;
  const createEvent = (): JsonObject => ({
    type: "package.installed",
    occurred_at: new Date().toISOString(),
    subject: { kind: "package", id: `pkg_${++written}` },
    summary: { text: "x".repeat(200) },
  });
  /** Writes events in one transaction with the row of a finished call, as a real change to a row does. */
  const writeEvents = async (count: number) => {
    const events = Array.from({ length: count }, () => {
      const { subject, summary } = createEvent();
      return {
        id: ids.next("event"),
        type: "package.installed" as const,
        scope,
        occurred_at: clock.now(),
        subject: subject as { kind: string; id: string },
        summary: summary as JsonObject,
      };
    });
    const ended_row = { ...createInvocationRow(0), id: ids.next("invocation"), status: "failed" as const };
    await store.invocations.open(ended_row, { records: { events } });
  };
  return {
    async callDirectly(count: number) {
      let remaining = count;
      const work = async () => {
        while (remaining-- > 0) {
          const call = await kernel.invocations.invoke(caller, { binding_id, input: createEvent() });
          const { status } = await call.settled;
          if (status !== "succeeded") throw new Error(`the call of the hook ended with the status ${status}`);
        }
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, work));
    },
    async deliver(count: number) {
      let remaining = count;
      const all = new Promise<void>((done) => {
        onCompleted = () => {
          if (--remaining === 0) done();
        };
      });
      await writeEvents(count);
      await all;
    },
    async measureTimeToCall() {
      await new Promise((done) => setTimeout(done, 60));
      const reached = new Promise<void>((done) => {
        onStarted = done;
      });
      const from = performance.now();
      await writeEvents(1);
      await reached;
      return performance.now() - from;
    },
    async close() {
      await kernel.stop(1_000);
      await processes.close(1_000);
      await store.close();
      await files.close();
      await schemas.close();
      echo.remove();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
