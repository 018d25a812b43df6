/**
 * A gateway is killed repeatedly while it delivers events to a hook in a worker process. The events are written to the
 * store beforehand, so that the test spends its time on kills and deliveries. The hook runs without the sandbox,
 * because it has to record the events that it handled; deliveries do not depend on the sandbox, and each start is
 * cheaper without it. The home is in memory, where written data survives the death of a process as it does on a disk.
 */
import { closeSync, mkdirSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSqliteStore } from "@backplane/store";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { expect } from "vitest";
import { sampleEvent, sampleInvocation } from "../../packages/store/test/samples.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { vaiProgram } from "../support/plugin-folder.ts";
import { eventually } from "../support/processes.ts";
import { verifies } from "../support/verifies.ts";

const DELIVERIES = 10_000;
const KILLS = 200;
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
  "200 kills during 10,000 deliveries lose none, and duplicates keep their id with a higher attempt",
  async () => {
    const folder = createMemoryFolder("backplane-deliveries-");
    const home = join(folder, "home");
    const journal = join(folder, "journal");
    mkdirSync(home, { mode: 0o700 });
    writeFileSync(join(home, "backplane.toml"), "[sandbox]\nenabled = false\n", { mode: 0o600 });
    writeFileSync(journal, "");
    const handled = lineCounter(journal);
    let gateway = await startTestGateway({ home });
    try {
      const hook = await bindJournal(gateway, folder, journal);
      await gateway.stop();
      await writeEvents(join(home, "store.db"));
      let before = 0;
      for (let kill = 0; kill < KILLS; kill++) {
        gateway = await startTestGateway({ home });
        // Each gateway handles at least the deliveries that the previous kill interrupted, so that none runs out of
        // attempts.
        const wanted = Math.min(before + 10 + ((kill * 7) % 30), DELIVERIES - (KILLS - kill) * 10);
        await eventually(() => handled.count() >= wanted, 120_000, `${wanted} events are handled`);
        await gateway.kill9();
        before = handled.count();
      }
      gateway = await startTestGateway({ home });
      await eventually(() => handled.count() >= DELIVERIES, 120_000, "all events are handled");
      for (const status of ["pending", "running"]) {
        await eventually(async () => (await list(gateway, hook, status)).length === 0, 60_000, status);
      }
      expect(await list(gateway, hook, "dead")).toEqual([]);
      const attempts = new Map<string, number[]>();
      const subjects = new Map<string, string>();
      for (const [id, attempt, subject] of linesOf(journal)) {
        attempts.set(id!, [...(attempts.get(id!) ?? []), Number(attempt)]);
        subjects.set(subject!, id!);
      }
      expect(attempts.size).toBe(DELIVERIES);
      expect(subjects.size).toBe(DELIVERIES);
      const repeated = [...attempts.values()].filter((numbers) => numbers.length > 1);
      // Some kills came between the handling of an event and its acknowledgement.
      expect(repeated.length).toBeGreaterThan(0);
      for (const numbers of attempts.values())
        expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
      await gateway.stop();
    } finally {
      handled.close();
      await gateway.dispose();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);

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

async function writeEvents(file: string): Promise<void> {
  const store = await openSqliteStore({ file });
  const scope = { org_id: "org_local", project_id: "proj_default" };
  for (let from = 0; from < DELIVERIES; from += EVENTS_PER_WRITE) {
    const events = Array.from({ length: EVENTS_PER_WRITE }, (_, n) =>
      sampleEvent(`subject_${from + n}`, { scope, type: "invocation.settled" }),
    );
    const row = sampleInvocation({ ...scope, status: "failed" });
    await store.invocations.open(row, { records: { events } });
  }
  await store.close();
}

/** Complete lines only: a kill may have cut the last one. */
function linesOf(journal: string): string[][] {
  return readFileSync(journal, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(" "));
}

/** Counts the lines of a growing file. Each call reads only what was appended since the last one. */
function lineCounter(file: string): { count(): number; close(): void } {
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

async function list(gateway: TestGateway, hook: string, status: string): Promise<unknown[]> {
  const path = `/v1/deliveries?binding_id=${hook}&status=${status}&limit=10`;
  return (await gateway.http<{ items: unknown[] }>("GET", path)).body.items;
}
