/** The calls in flight and their processes, when the gateway stops in order or is killed. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { eventually, processesWith } from "../support/gateway/processes.ts";
import { installAndBind, vaiProgram, writePluginFolder } from "../support/plugins/plugin-folder.ts";
import { createSharedFolder, type SharedFolder } from "../support/plugins/shared-folder.ts";
import { verifies } from "../support/verifies.ts";

const gateways: TestGateway[] = [];
const shared: SharedFolder = createSharedFolder("runs.log");
afterAll(async () => {
  for (const gateway of gateways) await gateway.dispose();
  shared.remove();
});

const start = async (options = {}) => {
  const gateway = await startTestGateway(options);
  gateways.push(gateway);
  return gateway;
};

const writeSleeper = (package_id: string, effect_class: string) =>
  writePluginFolder({
    package_id,
    entrypoint: ["node", "./bin/plugin.mjs", `mark=${package_id}`],
    files: { "bin/plugin.mjs": vaiProgram(package_id, "() => new Promise(() => {})") },
    exports: [{ id: "sleep", effect_class, default_timeout_ms: 600_000 }],
  });

/** Ignores both cancel and shutdown. */
const writeUnresponsivePlugin = (package_id: string) =>
  writePluginFolder({
    package_id,
    entrypoint: ["node", "./bin/plugin.mjs", `mark=${package_id}`],
    files: { "bin/plugin.mjs": vaiProgram(package_id, "() => { for (;;); }") },
    exports: [{ id: "spin", effect_class: "read_only", default_timeout_ms: 600_000 }],
  });

/** The user CPU time of a process in seconds; Linux counts hundredths. */
function cpuSecondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")")).split(" ")[12]) / 100;
}

const listInvocations = async (gateway: TestGateway, query: string) =>
  (
    await gateway.http<{ items: { id: string; status: string; error: { code: string } | null }[] }>(
      "GET",
      `/v1/invocations?limit=200&${query}`,
    )
  ).body.items;

verifies(
  "fault.shutdown",
  "ends 100 calls in flight with a terminal record on SIGTERM and exits before the grace period ends",
  async () => {
    // A stop that waited for the end of a grace period would take ten minutes, so the limit below shows that the gateway
    // does not wait. Calls that have reached the plugin, which ignores their cancellation, end after cancel_grace_ms.
    const home = mkdtempSync(join(tmpdir(), "bp-shutdown-"));
    const timeouts = "[timeouts]\nstop_grace_ms = 600000\nshutdown_grace_ms = 600000\n";
    writeFileSync(join(home, "backplane.toml"), timeouts);
    const gateway = await start({ home, env: { BACKPLANE_LOG_LEVEL: "warn" } });
    await installAndBind(gateway, writeSleeper("acme/sleeper-term", "read_only"), ["sleep"]);
    const started = await Promise.all(
      Array.from({ length: 100 }, () =>
        gateway.http<{ id: string }>("POST", "/v1/invocations", { export_id: "sleep", input: {} }),
      ),
    );
    expect(started.map((response) => response.status)).toEqual(Array.from({ length: 100 }, () => 202));
    const from = performance.now();
    const code = await gateway.stop();
    const took = performance.now() - from;
    expect(code).toBe(0);
    expect(took).toBeLessThan(60_000);
    expect(processesWith("mark=acme/sleeper-term")).toEqual([]);

    const again = await start({ home: gateway.home });
    const rows = await listInvocations(again, "export_id=sleep");
    expect(rows).toHaveLength(100);
    expect(new Set(rows.map((row) => row.id))).toEqual(new Set(started.map((response) => response.body.id)));
    for (const row of rows) {
      expect(["failed", "cancelled"]).toContain(row.status);
      expect(row.error?.code).toMatch(/^(gateway_stopping|cancelled)$/);
    }
  },
);

test("kills an unresponsive plugin on stop and records its call", async () => {
  const gateway = await start();
  await installAndBind(gateway, writeUnresponsivePlugin("acme/unresponsive-stop"), ["spin"]);
  const { body } = await gateway.http<{ id: string }>("POST", "/v1/invocations", {
    export_id: "spin",
    input: {},
  });
  await eventually(
    () => processesWith("mark=acme/unresponsive-stop").some((pid) => cpuSecondsOf(pid) > 0.5),
    20_000,
    "the plugin spins",
  );
  const from = performance.now();
  expect(await gateway.stop()).toBe(0);
  expect(performance.now() - from).toBeLessThan(20_000);
  expect(processesWith("mark=acme/unresponsive-stop")).toEqual([]);
  const again = await start({ home: gateway.home });
  const { body: row } = await again.http<object>("GET", `/v1/invocations/${body.id}`);
  expect(row).toMatchObject({
    status: expect.stringMatching(/^(failed|cancelled)$/),
    error: { code: "gateway_stopping" },
  });
}, 60_000);

verifies(
  "inv.effect-class",
  "leaves no plugin process after kill -9 during a call, and recovers the call by its effect class",
  async () => {
    const gateway = await start();
    const classes = ["read_only", "idempotent_write", "non_idempotent_write", "unknown"];
    for (const effect_class of classes) {
      const id = effect_class.replaceAll("_", "-");
      // Each process logs the execution id. The first one hangs; one that starts after the marker exists succeeds.
      const program = vaiProgram(
        `acme/${id}`,
        `async (call) => {
        const { existsSync } = await import("node:fs");
        const again = existsSync(call.body.input.marker);
        appendFileSync(call.body.input.log, ${JSON.stringify(effect_class)} + " " + call.body.tool_execution_id + "\\n");
        if (!again) await new Promise(() => {});
        return { status: "succeeded", result: { content: [{ type: "text", text: "again" }] } };
      }`,
      );
      const folder = writePluginFolder({
        package_id: `acme/${id}`,
        entrypoint: ["node", "./bin/plugin.mjs", "mark=effect-class-e2e"],
        files: { "bin/plugin.mjs": program },
        exports: [{ id: effect_class, effect_class, default_timeout_ms: 600_000 }],
      });
      await installAndBind(gateway, folder, [effect_class], { class: "worker", mounts: [shared.mount] });
      const input = { marker: shared.inside("again"), log: shared.inside("runs.log") };
      const response = await gateway.http("POST", "/v1/invocations", { export_id: effect_class, input });
      expect(response.status).toBe(202);
    }
    const runs = () => readFileSync(shared.outside("runs.log"), "utf8").split("\n").slice(0, -1);
    await eventually(() => runs().length === 4, 60_000, "all four calls reached their plugin");
    await gateway.kill9();
    await eventually(
      () => processesWith("mark=effect-class-e2e").length === 0,
      5_000,
      "no plugin process is left",
    );
    writeFileSync(shared.outside("again"), "");

    const again = await start({ home: gateway.home });
    await eventually(
      async () => (await listInvocations(again, "status=running")).length === 0,
      20_000,
      "all calls settled",
    );
    const rows = await listInvocations(again, "");
    const by_class = Object.fromEntries(
      rows.map((row) => [(row as unknown as { effect_class: string }).effect_class, row]),
    );
    expect(by_class.read_only!.status).toBe("succeeded");
    expect(by_class.idempotent_write!.status).toBe("succeeded");
    for (const effect_class of ["non_idempotent_write", "unknown"]) {
      expect(by_class[effect_class]).toMatchObject({ status: "failed", error: { code: "outcome_unknown" } });
    }
    const keys = (effect_class: string) =>
      runs()
        .filter((line) => line.startsWith(`${effect_class} `))
        .map((line) => line.split(" ")[1]);
    expect(keys("read_only")).toHaveLength(2);
    expect(keys("idempotent_write")).toHaveLength(2);
    expect(new Set(keys("idempotent_write")).size).toBe(1);
    expect(keys("non_idempotent_write")).toHaveLength(1);
    expect(keys("unknown")).toHaveLength(1);
  },
  60_000,
);
