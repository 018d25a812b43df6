/** Two gateways on one PostgreSQL: limits, artifacts, packages and the takeover of interrupted work. */
import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually } from "../support/gateway/processes.ts";
import { createGatedTool } from "../support/plugins/gated-tool.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { createSharedFolder, type SharedFolder } from "../support/plugins/shared-folder.ts";
import { startPostgres, type TestPostgres } from "../support/store/postgres.ts";
import { verifies } from "../support/verifies.ts";

let postgres: TestPostgres;
let shared: SharedFolder;
const gateways: TestGateway[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  shared = createSharedFolder("calls.log");
});
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  await postgres.stop();
  shared.remove();
});

const start = async (env: Record<string, string> = {}, url = postgres.url) => {
  const gateway = await startTestGateway({ env: { BACKPLANE_STORE_URL: url, ...env } });
  gateways.push(gateway);
  return gateway;
};

/** The highest number of concurrent calls in the plugin, from its own log of starts and ends. */
function measurePeakConcurrency(log: string): { peak: number; calls: number } {
  const lines = readFileSync(log, "utf8").trim().split("\n");
  let now = 0;
  let peak = 0;
  for (const line of lines) {
    now += line === "in" ? 1 : -1;
    peak = Math.max(peak, now);
  }
  return { peak, calls: lines.filter((line) => line === "in").length };
}

verifies(
  "bind.concurrency",
  "enforces max_concurrency across two gateways, queues further calls, and returns 429 when the queue is full",
  async () => {
    const [first, second] = [await start(), await start()];
    const folder = writePluginFolder({
      package_id: "acme/limited",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: {
        "bin/plugin.mjs": vaiProgram(
          "acme/limited",
          `async (call) => {
            appendFileSync(call.body.input.log, "in\\n");
            await new Promise((done) => setTimeout(done, call.body.input.ms));
            appendFileSync(call.body.input.log, "out\\n");
            return { status: "succeeded", result: { content: [] } };
          }`,
        ),
      },
      // `extra` leaves out the canary secret, because each home seals secrets with its own key and the second gateway
      // could not open it.
      exports: [{ id: "limited", max_concurrency: 3, default_timeout_ms: 60_000, extra: "" }],
    });
    // Both gateways confine the plugin; the only folder of the host that it sees is that of the log.
    await installAndBind(first, folder, ["limited"], { class: "worker", mounts: [shared.mount] });
    const call = (gateway: TestGateway, query: string, ms: number) =>
      gateway.http<{ status: string }>("POST", `/v1/invocations${query}`, {
        export_id: "limited",
        input: { log: shared.inside("calls.log"), ms },
      });
    const responses = await Promise.all(
      Array.from({ length: 40 }, (_, i) => call(i % 2 === 0 ? first : second, "?wait=50", 60)),
    );
    expect(responses.map((response) => response.body.status)).toEqual(
      Array.from({ length: 40 }, () => "succeeded"),
    );
    expect(measurePeakConcurrency(shared.outside("calls.log"))).toEqual({ peak: 3, calls: 40 });

    // One gateway alone accepts 3 + 100 calls; further calls are refused immediately with Retry-After. No call ends before
    // all of them have arrived.
    const burst = await Promise.all(Array.from({ length: 140 }, () => call(first, "", 50_000)));
    const refused = burst.filter((response) => response.status === 429);
    expect(refused).toHaveLength(37);
    expect(refused[0]!.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(refused[0]!.body).toMatchObject({ error: { code: "invocation.queue_full", retryable: true } });
    expect(burst.filter((response) => response.status === 202)).toHaveLength(103);
  },
  90_000,
);

verifies(
  "inv.artifacts",
  "serves an artifact of one gateway's call from the other gateway, even when the first has stopped",
  async () => {
    const [first, second] = [await start(), await start()];
    const folder = writePluginFolder({
      package_id: "acme/shared-files",
      entrypoint: ["node", "./bin/plugin.mjs"],
      files: {
        "bin/plugin.mjs": vaiProgram(
          "acme/shared-files",
          `async ({ body }) => {
            const { writeFileSync } = await import("node:fs");
            writeFileSync(body.context.scratch_dir + "/out.bin", Buffer.alloc(3_000_000, "b"));
            return { status: "succeeded", result: { content: [], structured_output: { transport: "artifact", path: "out.bin" } } };
          }`,
        ),
      },
      exports: [{ id: "share", extra: '[exports.permissions]\nfilesystem = "scratch"' }],
    });
    await installAndBind(first, folder, ["share"], { class: "worker" });
    const ended = await first.http<{ id: string; result: { structured_output: { sha256: string } } }>(
      "POST",
      "/v1/invocations?wait=30",
      { export_id: "share", input: {} },
    );
    const { sha256 } = ended.body.result.structured_output;
    const path = `/v1/invocations/${ended.body.id}/artifacts/${sha256}`;
    const read = async ({ url, token }: TestGateway) => {
      const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
      return hash("sha256", Buffer.from(await response.arrayBuffer()), "hex");
    };
    expect([await read(first), await read(second)]).toEqual([sha256, sha256]);
    expect(readdirSync(join(first.home, "blobs"))).not.toContain("artifacts");
    await first.stop();
    expect(await read(second)).toBe(sha256);
  },
  60_000,
);

const TAKEOVER_MS = 60_000;

verifies(
  "inv.effect-class",
  "takes over the call and the delivery of a killed gateway with a package that was installed only there",
  async () => {
    const database = await startPostgres();
    const gated = createGatedTool();
    const env = { BACKPLANE_NODE_LEASE_MS: "6000" };
    try {
      const first = await start(env, database.url);
      await gated.install([first], true);
      gated.holdHooks();
      gated.openGate("settled");
      const look = (name: string, query = "") =>
        [`/v1/invocations${query}`, { export_id: "look", input: { name } }] as const;
      await first.http("POST", ...look("settled", "?wait=60"));
      await eventually(() => gated.deliveries().length === 1, TAKEOVER_MS, "the delivery runs");
      const { body: call } = await first.http<{ id: string }>("POST", ...look("again"));
      await eventually(() => gated.countRuns("again") === 1, TAKEOVER_MS, "the call runs");
      const second = await start(env, database.url);
      await first.kill9();
      await eventually(() => gated.countRuns("again") === 2, TAKEOVER_MS, "the call runs again");
      await eventually(() => gated.deliveries().length === 2, TAKEOVER_MS, "the delivery is repeated");
      gated.openGate("again");
      gated.releaseHooks();
      const read = async () =>
        (await second.http<{ status: string; retry_count: number }>("GET", `/v1/invocations/${call.id}`))
          .body;
      await eventually(async () => (await read()).status !== "running", TAKEOVER_MS, "the call ends");
      expect(await read()).toMatchObject({ status: "succeeded", retry_count: 1 });
      const [delivery, repeated] = gated.deliveries();
      expect(repeated).toBe(delivery);
      gated.openGate("direct");
      expect((await second.http("POST", ...look("direct", "?wait=60"))).body).toMatchObject({
        status: "succeeded",
      });
      const { body } = await second.http<{ items: { id: string; digest: string; package_id: string }[] }>(
        "GET",
        "/v1/plugin-packages",
      );
      expect(readdirSync(join(second.home, "blobs/sha256")).toSorted()).toEqual(
        body.items.map(({ digest }) => digest.slice("sha256:".length)).toSorted(),
      );
    } finally {
      gated.remove();
      // The gateways are disposed of first, because they would wait for the database.
      for (const gateway of gateways.splice(0)) await gateway.dispose();
      await database.stop();
    }
  },
  300_000,
);
