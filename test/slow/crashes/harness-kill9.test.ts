/**
 * The harness of examples/daily-digest is killed fifty times, every fifth time together with its gateway, while it asks
 * about one topic after another. It continues at its last checkpoint, gets one answer per topic, and ends with every answer.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Execution, Run } from "@backplane/contract";
import { expect } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually, processesWith } from "../../support/gateway/processes.ts";
import { verifies } from "../../support/verifies.ts";

const KILLS = 50;
/** More than the harness can ask about between the kills. */
const TOPICS = 250;
const LIMIT_MS = 60_000;

verifies(
  ["harness.contract", "harness.checkpoint"],
  "fifty kills of a harness and of its gateway lose no answer and complete no run twice",
  async () => {
    let gateway = await startTestGateway();
    const { home } = gateway;
    try {
      await bindHarness(gateway, "examples/daily-digest");
      const topics = Array.from({ length: TOPICS }, (_, n) => `/say answer ${n}`);
      const { id, harness } = await startRun(gateway, topics.join("\n"));
      const execution = () => readExecution(gateway, harness!.execution_id);
      let checkpoints_seen = 0;
      for (let kill = 0; kill < KILLS; kill++) {
        // Waits for one more answer before each kill: a harness that never gets one would be ended after ten starts.
        await eventually(
          async () => (await execution()).checkpoints > checkpoints_seen,
          LIMIT_MS,
          `checkpoint ${checkpoints_seen}`,
        );
        checkpoints_seen = (await execution()).checkpoints;
        await new Promise((done) => setTimeout(done, (kill * 37) % 150));
        if (kill % 5 === 4) {
          await gateway.kill9();
          gateway = await startTestGateway({ home });
        } else if (!(await killHarness(gateway))) kill--;
        const { status, error } = await readRun(gateway, id);
        if (status !== "running") throw new Error(`${status} after ${kill} kills: ${error?.message ?? ""}`);
      }
      await eventually(
        async () => (await readRun(gateway, id)).status !== "running",
        LIMIT_MS,
        "the run ends",
      );
      const done = await readRun(gateway, id);
      expect(done).toMatchObject({ status: "completed", error: null });
      expect(done.output?.content.split("\n")).toEqual(topics.map((_, n) => `answer ${n}`));
      await expectNoDuplicates(gateway, done, await execution());
    } finally {
      await gateway.dispose();
    }
  },
  600_000,
);

async function expectNoDuplicates(gateway: TestGateway, done: Run, { id, used }: Execution): Promise<void> {
  const children: Run[] = [];
  for (let after = ""; ; ) {
    const query = `limit=200${after === "" ? "" : `&after=${after}`}`;
    const { body } = await gateway.http<{ items: Run[]; next: string | null }>("GET", `/v1/runs?${query}`);
    children.push(...body.items.filter(({ trigger }) => trigger === "harness"));
    if (body.next === null) break;
    after = body.next;
  }
  expect(children.every(({ parent_run_id }) => parent_run_id === done.id)).toBe(true);
  expect(used.child_runs).toBe(children.length);
  // A turn that was interrupted twice has failed, and the harness has started another one under a new key.
  const completed = children.filter(({ status }) => status === "completed");
  const sessions = Array.from({ length: TOPICS }, (_, n) => `${id}-${n}`);
  expect(completed.map(({ session_id }) => session_id).sort()).toEqual(sessions.toSorted());
  expect(children.filter(({ status }) => status === "running")).toEqual([]);
}

/** Kills the process of the harness inside its sandbox. Returns false if the process does not exist yet. */
async function killHarness({ pid: gateway_pid }: TestGateway): Promise<boolean> {
  const pids = processesWith("./bin/plugin.py").filter((pid) => isDescendant(pid, gateway_pid));
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has exited in the meantime.
    }
  }
  if (pids.length === 0) await new Promise((done) => setTimeout(done, 20));
  return pids.length > 0;
}

function isDescendant(pid: number, ancestor: number): boolean {
  for (let at = pid; at > 1; ) {
    if (at === ancestor) return true;
    try {
      at = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${at}/status`, "utf8"))?.[1] ?? 0);
    } catch {
      return false;
    }
  }
  return false;
}

async function startRun(gateway: TestGateway, text: string): Promise<Run> {
  const { status, body } = await gateway.http<Run>("POST", "/v1/runs", {
    session_id: "digest",
    input: { text },
    harness: { export_id: "digest", policy: { max_child_runs: 400, max_steps: 2_000 } },
  });
  if (status !== 202) throw new Error(JSON.stringify(body));
  return body;
}

async function readRun(gateway: TestGateway, id: string): Promise<Run> {
  return (await gateway.http<Run>("GET", `/v1/runs/${id}`)).body;
}

async function readExecution(gateway: TestGateway, id: string): Promise<Execution> {
  return (await gateway.http<Execution>("GET", `/v1/executions/${id}`)).body;
}

async function bindHarness(gateway: TestGateway, folder: string): Promise<void> {
  const installed = await gateway.cli("plugin", "install", resolve(folder), "--bind", "--json");
  if (installed.code !== 0) throw new Error(installed.stderr);
}
