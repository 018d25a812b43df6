/**
 * Ten times the load that a gateway accepts: excess calls are refused explicitly, accepted calls complete, and the
 * control plane responds in the meantime.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { startTestGateway } from "../../support/gateway/gateway.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../../support/plugins/plugin-folder.ts";
import { verifies } from "../../support/verifies.ts";

const RUNNING = 2;
const QUEUED = 18;
const OFFERED = 10 * (RUNNING + QUEUED);
const RECOVERY_MS = 10_000;
const WORK_MS = 250;
/** The usual value is 100 to 200 ms. The accepted calls take longer, so a control plane that waits for them fails. */
const CONTROL_PLANE_MS = 2_000;

const PLUGIN = `async (call) => {
  await new Promise((done) => setTimeout(done, call.body.input.ms));
  return { status: "succeeded", result: { content: [] } };
}`;

interface Call {
  id: string;
  status: string;
  error: { code: string; retryable: boolean } | null;
}

verifies(
  "fault.overload",
  "refuses excess calls with 429 at ten times the load that it accepts, completes the others, serves the control plane and recovers",
  async () => {
    const home = mkdtempSync(join(tmpdir(), "backplane-overload-"));
    writeFileSync(join(home, "backplane.toml"), `[limits]\nqueue_per_binding = ${QUEUED}\n`);
    const gateway = await startTestGateway({ home });
    onTestFinished(() => gateway.dispose());
    const folder = writePluginFolder({
      package_id: "acme/busy",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: { "bin/plugin.mjs": vaiProgram("acme/busy", PLUGIN) },
      exports: [
        { id: "work", effect_class: "read_only", max_concurrency: RUNNING, default_timeout_ms: 60_000 },
        { id: "sleep", effect_class: "read_only", default_timeout_ms: 600_000 },
      ],
    });
    await installAndBind(gateway, folder, ["work", "sleep"]);
    const call = (export_id: string, ms: number, query = "") =>
      gateway.http<Call>("POST", `/v1/invocations${query}`, { export_id, input: { ms } });
    expect((await call("work", 1, "?wait=50")).body.status).toBe("succeeded");
    const { body: sleeping } = await call("sleep", 600_000);
    const burst = Array.from({ length: OFFERED }, () => call("work", WORK_MS));
    // These requests are sent while the burst is accepted and processed.
    const requests = [
      ["GET", "/healthz"],
      ["GET", "/readyz"],
      ["GET", "/v1/status"],
      ["POST", `/v1/invocations/${sleeping.id}:cancel`],
    ] as const;
    const control = requests.map(async ([method, path]) => {
      const sent_at = performance.now();
      const { status } = await gateway.http(method, path);
      return { path, ok: status < 300, in_time: performance.now() - sent_at < CONTROL_PLANE_MS };
    });
    const responses = await Promise.all(burst);
    expect(await Promise.all(control)).toEqual(
      requests.map(([, path]) => ({ path, ok: true, in_time: true })),
    );

    const accepted = responses.filter(({ status }) => status === 202);
    const refused = responses.filter(({ status }) => status === 429);
    // Every request gets one of these two responses.
    expect(accepted.length + refused.length).toBe(OFFERED);
    expect(accepted.length).toBeGreaterThanOrEqual(RUNNING + QUEUED);
    expect(refused.length).toBeGreaterThan(OFFERED / 2);
    for (const { body, headers } of refused) {
      expect(headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
      expect(body.error).toMatchObject({ code: "invocation.queue_full", retryable: true });
    }
    // Recovery: a new call is accepted and completes.
    await eventually(
      async () => (await call("work", 1, "?wait=50")).body.status === "succeeded",
      RECOVERY_MS,
      "a call succeeds after the burst",
    );
    const read = async ({ body }: { body: Call }) =>
      (await gateway.http<Call>("GET", `/v1/invocations/${body.id}`)).body;
    let ended: Call[] = [];
    await eventually(
      async () => {
        ended = await Promise.all(accepted.map(read));
        return ended.every(({ status }) => status !== "running");
      },
      60_000,
      "the accepted calls have ended",
    );
    expect(ended.filter(({ status }) => status !== "succeeded")).toEqual([]);
    // A cancel request is answered when the cancellation has begun; the plugin gets a grace period.
    await eventually(
      async () => (await read({ body: sleeping })).status === "cancelled",
      60_000,
      "the cancelled call has ended",
    );
    // A refused call is recorded with its reason, and no call is waiting.
    const { body: list } = await gateway.http<{ items: Call[] }>("GET", "/v1/invocations?limit=200");
    expect(new Set(list.items.map(({ status, error }) => error?.code ?? status))).toEqual(
      new Set(["succeeded", "invocation.queue_full"]),
    );
  },
  180_000,
);
