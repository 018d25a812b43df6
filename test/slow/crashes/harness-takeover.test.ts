/**
 * The example harnesses: installed and started with the CLI, and taken over by another gateway that shares the
 * PostgreSQL database.
 */
import { resolve } from "node:path";
import type { Execution, Run } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { startPostgres, type TestPostgres } from "../../support/store/postgres.ts";
import { verifies } from "../../support/verifies.ts";

const LIMIT_MS = 120_000;
const TOPICS = 40;

let postgres: TestPostgres;
/** The gateway of the first tests, with the bug-triage harness. The last test kills it. */
let first: TestGateway;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  first = await start();
  await install(first, "examples/bug-triage", "--bind");
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
});

async function start(): Promise<TestGateway> {
  const gateway = await startTestGateway({ env: { BACKPLANE_STORE_URL: postgres.url } });
  gateways.push(gateway);
  return gateway;
}

async function install(gateway: TestGateway, folder: string, ...more: string[]): Promise<void> {
  const { code, stderr } = await gateway.cli("plugin", "install", resolve(folder), ...more, "--json");
  if (code !== 0) throw new Error(stderr);
}

test(
  "`run start` executes the bug-triage harness, which starts child runs and writes a report",
  async () => {
    const flags = ["--session", "bug-7", "--harness", "triage", "--input", "The page is blank", "--wait"];
    const { code, stdout, stderr } = await first.cli("run", "start", ...flags, "--json");
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const run = JSON.parse(stdout) as Run;
    expect(run).toMatchObject({ status: "completed", session_id: "bug-7" });
    const { body } = await first.http<{ items: Run[] }>("GET", "/v1/runs?limit=50");
    const children = body.items.filter(({ parent_run_id }) => parent_run_id === run.id);
    expect(children.map(({ session_id, trigger }) => `${session_id} ${trigger}`).toSorted()).toEqual([
      "bug-7 harness",
      "bug-7-locate harness",
      "bug-7-reproduce harness",
    ]);
    const { invocation_id } = run.harness!;
    const call = await first.http<{ result: { artifacts: { sha256: string }[] } }>(
      "GET",
      `/v1/invocations/${invocation_id}`,
    );
    const { sha256 } = call.body.result.artifacts[0]!;
    const file = await fetch(`${first.url}/v1/invocations/${invocation_id}/artifacts/${sha256}`, {
      headers: { authorization: `Bearer ${first.token}` },
    });
    expect(await file.text()).toContain("# The page is blank");
  },
  LIMIT_MS,
);

test(
  "`run start --stream` prints the answers of a harness's child runs to stderr and its result to stdout",
  async () => {
    const flags = ["--session", "bug-8", "--harness", "triage", "--input", "The page is blank"];
    const { code, stdout, stderr } = await first.cli("run", "start", ...flags, "--stream");
    expect({ code, stdout: stdout.split("\n")[0] }).toEqual({ code: 0, stdout: "echo: Propose a fix." });
    expect(stderr.split("echo: Propose a fix.")).toHaveLength(2);
  },
  LIMIT_MS,
);

verifies(
  "harness.contract",
  "another gateway takes over the harness of a dead node at its last checkpoint and completes no run twice",
  async () => {
    // The second gateway fetches the files of the package.
    const second = await start();
    await install(first, "examples/daily-digest", "--bind");
    const text = Array.from({ length: TOPICS }, (_, n) => `/say answer ${n}`).join("\n");
    const harness = { export_id: "digest", policy: { max_child_runs: 100 } };
    const body = { session_id: "digest", input: { text }, harness };
    const { id, harness: execution } = (await first.http<Run>("POST", "/v1/runs", body)).body;
    const path = `/v1/executions/${execution!.execution_id}`;
    const read = async () => (await second.http<Execution>("GET", path)).body;
    await eventually(async () => (await read()).checkpoints >= 3, LIMIT_MS, "three checkpoints");
    await first.kill9();
    const execution_before = await read();
    expect(execution_before).toMatchObject({ status: "running" });
    await eventually(async () => (await read()).status !== "running", LIMIT_MS, "the run ends");
    const done = (await second.http<Run>("GET", `/v1/runs/${id}`)).body;
    expect(done).toMatchObject({ status: "completed", error: null });
    expect(done.output?.content.split("\n")).toHaveLength(TOPICS);
    const { items } = (await second.http<{ items: Run[] }>("GET", "/v1/runs?limit=200")).body;
    const children = items.filter(({ parent_run_id }) => parent_run_id === id);
    const completed = children.filter(({ status }) => status === "completed");
    expect(new Set(completed.map(({ session_id }) => session_id)).size).toBe(TOPICS);
    expect(completed).toHaveLength(TOPICS);
    expect((await read()).used.child_runs).toBe(children.length);
  },
  2 * LIMIT_MS,
);
