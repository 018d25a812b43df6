/**
 * Gateways are killed repeatedly while they deliver events to a hook in a worker process. The events are written to the
 * store beforehand, so that the test spends its time on kills and deliveries. The hook runs without the sandbox,
 * because it has to record the events that it handled; deliveries do not depend on the sandbox, and each start is
 * cheaper without it. A home is in memory, where written data survives the death of a process as it does on a disk.
 * After a kill, a gateway checks every row of its store, so the deliveries are divided between several homes.
 */
import { closeSync, mkdirSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { expect } from "vitest";
import { sampleEvent, sampleInvocation } from "../../../packages/store/test/support/samples.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { vaiProgram } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

const DELIVERIES = 10_000;
const KILLS = 200;
const HOMES = 4;
/** Homes in use at the same time: a gateway that starts or waits leaves a processor to the other one. */
const CONCURRENT_HOMES = 2;
const EVENTS_PER_WRITE = 100;

const MANIFEST = `api_version = "vai.plugin.v1"
package_id = "acme/journal"
version = "1.0.0"
name = "Journal"
[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["node", "plugin.mjs"]
[[exports]]
id = "journal"
kind = "hook"
[exports.hook]
subscribes_to = ["invocation.settled"]
`;

/** One line for each event that the hook handled, written before it answers. */
const HANDLE = `(request) => {
  const { delivery_id, attempt, event, context } = request.body ?? request;
  appendFileSync(context.config.file, delivery_id + " " + attempt + " " + event.subject.id + "\\n");
  return { status: "ack" };
}`;

verifies(
  "fault.kill9",
  "200 kills during 10,000 deliveries lose no delivery, and each repetition has the same delivery id and a higher attempt",
  async () => {
    const homes = Array.from({ length: HOMES }, () => ({
      deliveries: DELIVERIES / HOMES,
      kills: KILLS / HOMES,
    }));
    const journals: string[][][] = [];
    const runHomes = async () => {
      for (let home = homes.pop(); home !== undefined; home = homes.pop())
        journals.push(await deliverWithKills(home));
    };
    // If one of them fails, the others still end their gateways.
    for (const ended of await Promise.allSettled(Array.from({ length: CONCURRENT_HOMES }, runHomes)))
      if (ended.status === "rejected") throw ended.reason;
    const attempts = journals.flatMap(checkJournal);
    expect(attempts).toHaveLength(DELIVERIES);
    // Some kills came between the handling of an event and its acknowledgement.
    expect(attempts.filter((numbers) => numbers.length > 1).length).toBeGreaterThan(0);
  },
);

/** Returns the lines of the hook's journal after all events of one home are delivered. */
async function deliverWithKills({ deliveries, kills }: { deliveries: number; kills: number }) {
  const folder = createMemoryFolder("backplane-deliveries-");
  const home = join(folder, "home");
  const journal = join(folder, "journal");
  mkdirSync(home, { mode: 0o700 });
  writeFileSync(join(home, "backplane.toml"), "[sandbox]\nenabled = false\n", { mode: 0o600 });
  writeFileSync(journal, "");
  const handled = createLineCounter(journal);
  let gateway = await startTestGateway({ home });
  try {
    const hook = await bindJournal(gateway, folder, journal);
    await gateway.stop();
    await writeEvents(join(home, "store.db"), deliveries);
    let handled_before = 0;
    for (let kill = 0; kill < kills; kill++) {
      gateway = await startTestGateway({ home });
      // Each gateway handles at least the deliveries that the previous kill interrupted, so that none runs out of
      // attempts.
      const wanted = Math.min(handled_before + 10 + ((kill * 7) % 30), deliveries - (kills - kill) * 10);
      await eventually(() => handled.count() >= wanted, 120_000, `${wanted} events are handled`);
      await gateway.kill9();
      handled_before = handled.count();
    }
    gateway = await startTestGateway({ home });
    await eventually(() => handled.count() >= deliveries, 120_000, "all events are handled");
    for (const status of ["pending", "running"]) {
      await eventually(
        async () => (await listDeliveries(gateway, hook, status)).length === 0,
        60_000,
        status,
      );
    }
    expect(await listDeliveries(gateway, hook, "dead")).toEqual([]);
    await gateway.stop();
    return readCompleteLines(journal);
  } finally {
    handled.close();
    await gateway.dispose();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the attempts of each delivery: one delivery for each event, and attempts that rise. */
function checkJournal(lines: readonly string[][]): number[][] {
  const attempts = new Map<string, number[]>();
  const subjects = new Set<string>();
  for (const [id, attempt, subject] of lines) {
    attempts.set(id!, [...(attempts.get(id!) ?? []), Number(attempt)]);
    subjects.add(subject!);
  }
  expect(subjects.size).toBe(attempts.size);
  for (const numbers of attempts.values())
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  return [...attempts.values()];
}

async function bindJournal(gateway: TestGateway, folder: string, file: string): Promise<string> {
  const plugin = join(folder, "plugin");
  mkdirSync(plugin);
  writeFileSync(join(plugin, "vai-plugin.toml"), MANIFEST);
  writeFileSync(join(plugin, "plugin.mjs"), vaiProgram("acme/journal", HANDLE));
  await gateway.http("POST", "/v1/plugin-packages", { source: { folder: plugin } });
  const bound = await gateway.http<{ binding_id: string }>("POST", "/v1/plugin-bindings", {
    package_id: "acme/journal",
    package_version: "1.0.0",
    export_id: "journal",
    config: { file },
  });
  expect(bound.status).toBe(201);
  return bound.body.binding_id;
}

async function writeEvents(file: string, count: number): Promise<void> {
  const store = await openSqliteStore({ file });
  const scope = { org_id: "org_local", project_id: "proj_default" };
  for (let from = 0; from < count; from += EVENTS_PER_WRITE) {
    const events = Array.from({ length: EVENTS_PER_WRITE }, (_, n) =>
      sampleEvent(`subject_${from + n}`, { scope, type: "invocation.settled" }),
    );
    const row = sampleInvocation({ ...scope, status: "failed" });
    await store.invocations.open(row, { records: { events } });
  }
  await store.close();
}

/** Leaves out the last line if a kill truncated it. */
function readCompleteLines(journal: string): string[][] {
  return readFileSync(journal, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(" "));
}

/** Counts the lines of a growing file. Each call reads only what was appended since the last one. */
function createLineCounter(file: string): { count(): number; close(): void } {
  const handle = openSync(file, "r");
  const buffer = Buffer.alloc(64 * 1024);
  let lines = 0;
  return {
    count() {
      for (let size = readSync(handle, buffer); size > 0; size = readSync(handle, buffer)) {
        for (let at = buffer.indexOf(10); at !== -1 && at < size; at = buffer.indexOf(10, at + 1)) lines++;
      }
      return lines;
    },
    close: () => closeSync(handle),
  };
}

async function listDeliveries(gateway: TestGateway, hook: string, status: string): Promise<unknown[]> {
  const path = `/v1/deliveries?binding_id=${hook}&status=${status}&limit=10`;
  return (await gateway.http<{ items: unknown[] }>("GET", path)).body.items;
}
