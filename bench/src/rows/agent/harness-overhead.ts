/**
 * The cost of a harness beyond the turn that it starts. The gateway opens a run, a call and an execution, stores one
 * checkpoint and settles all three, each step durably. The harness does no work of its own: it starts one turn, whose
 * model answers immediately. The difference from such a turn alone is therefore the cost of the gateway. Starting a
 * process is not included (see sandbox.cold).
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createIdSource } from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { plugin as echo } from "@backplane/plugin-llm-echo";
import { plugin as react } from "@backplane/plugin-strategy-react";
import { type Caller, hostPolicy } from "@backplane/ports";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { createSchemas } from "@backplane/supply";
import { createInlineLoader } from "@backplane/test-kit/inline-loader";
import { manifest, TestImporter } from "@backplane/test-kit/kernel/manifests";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const RUNS = 150;
const REPETITIONS = 5;

const caller: Caller = {
  actor: "admin",
  scope: { org_id: "org_local", project_id: "proj_default" },
  role: "owner",
  scopes: ["admin"],
  admin: true,
};

const harness = manifest([
  {
    id: "flow",
    kind: "harness",
    permissions: { gateway_api_scopes: ["runs:write"] },
    harness: { fidelity: "checkpoint" },
  },
]);

export async function measureHarnessOverhead(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-harness-"));
  const ours = await createBenchKernel(join(folder, "store.db"));
  try {
    const child_run_ms: number[] = [];
    const harness_ms: number[] = [];
    for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
      const turn_ms = await measureMeanMs(ours.runTurn);
      const run_ms = await measureMeanMs(ours.runHarness);
      if (repetition === 0) continue;
      child_run_ms.push(turn_ms);
      harness_ms.push(run_ms);
    }
    const overhead = median(harness_ms) - median(child_run_ms);
    return [
      createRow(
        "harness.overhead",
        "ms beyond one child run, one checkpoint, durable",
        "lower",
        overhead,
        null,
        {
          "the child run alone": median(child_run_ms),
        },
      ),
    ];
  } finally {
    await ours.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureMeanMs(work: (name: string) => Promise<void>): Promise<number> {
  const name = Math.random().toString(36).slice(2);
  const from = performance.now();
  for (let n = 0; n < RUNS; n++) await work(`${name}-${n}`);
  return (performance.now() - from) / RUNS;
}

async function createBenchKernel(file: string) {
  const store = await openSqliteStore({ file });
  const schemas = createSchemas();
  const random = (bytes: Uint8Array) => void randomFillSync(bytes);
  const ids = createIdSource(Date.now, random);
  const runner = new ScriptedRunner();
  const importer = new TestImporter();
  const kernel = createKernel({
    store,
    schemas,
    runner,
    importer,
    vault: createSecretVault([{ id: "k", key: new Uint8Array(32) }]),
    clock,
    ids,
    node_id: ids.next("node"),
    random,
    host: hostPolicy({}),
    gateway: { base_url: () => "" },
    log: createTestLogger((level, message, fields) => {
      if (level === "error") console.error(message, fields);
    }),
    plugins: createInlineLoader([echo, react], tmpdir),
    pause: setImmediate,
  });
  await kernel.start();
  await kernel.packages.install(caller, importer.add(harness));
  const { package_id, version } = harness;
  await kernel.bindings.create(caller, { package_id, package_version: version, export_id: "flow" });
  const input = { text: "/say done" };
  runner.script = async ({ request, event }) => {
    const as = await kernel.keys.authenticate(request.context.gateway.delegation_token!);
    const session_id = `${request.context.session_id}-child`;
    const { ticket } = await kernel.runs.startOnce(as, { session_id, input }, "step", "digest");
    await ticket!.settled;
    event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { step: 1 } } });
    return ok({ summary: { text: "done" } });
  };
  const requireCompleted = async (settled: Promise<{ status: string }>) => {
    const { status } = await settled;
    if (status !== "completed") throw new Error(`a run ended with the status ${status}`);
  };
  return {
    runTurn: async (session_id: string) =>
      await requireCompleted((await kernel.runs.start(caller, { session_id, input })).settled),
    runHarness: async (session_id: string) => {
      const body = { session_id, input, harness: { export_id: "flow" } };
      await requireCompleted((await kernel.runs.start(caller, body)).settled);
    },
    async close() {
      await kernel.stop(0);
      await store.close();
      await schemas.close();
    },
  };
}
