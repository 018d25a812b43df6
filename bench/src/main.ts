/**
 * `npm run bench [-- NAME… --json]`. A NAME selects the benchmarks that begin with it, or the benchmark of the row that
 * it names. Exits with 1 if a row could not be measured, and with 2 for an unknown name.
 */
import { formatTable, type Row } from "./measuring/row.ts";

const BENCHMARKS: Record<string, () => Promise<Row[]>> = {
  "wire.warm-call": async () => (await import("./rows/calls/wire-warm-call.ts")).measureWireWarmCall(),
  "runner.warm-call": async () => (await import("./rows/calls/runner-warm-call.ts")).measureRunnerWarmCall(),
  "http.invoke": async () => (await import("./rows/calls/http-invoke.ts")).measureHttpInvoke(),
  "llm.proxy": async () => (await import("./rows/calls/llm-proxy.ts")).measureLlmProxy(),
  "mcp.http-call": async () => (await import("./rows/calls/mcp-http.ts")).measureMcpHttp(),
  "store.append": async () => (await import("./rows/gateway/store-append.ts")).measureStoreAppend(),
  "bus.dispatch": async () => (await import("./rows/agent/bus-dispatch.ts")).measureBusDispatch(),
  hooks: async () => (await import("./rows/calls/hooks-delivery.ts")).measureHooksDelivery(),
  "loop.turn": async () => (await import("./rows/agent/loop-turn.ts")).measureLoopTurn(),
  "harness.overhead": async () => (await import("./rows/agent/harness-overhead.ts")).measureHarnessOverhead(),
  "compact.turn": async () => (await import("./rows/agent/compact-turn.ts")).measureCompaction(),
  "fanout.ws": async () => (await import("./rows/sessions/fanout-ws.ts")).measureFanout(),
  "session.idle-bytes": async () => (await import("./rows/sessions/session-idle.ts")).measureIdleSessions(),
  catalog: async () => (await import("./rows/gateway/catalog.ts")).measureCatalog(),
  tape: async () => (await import("./rows/sessions/tape.ts")).measureTape(),
  "egress.throughput": async () => (await import("./rows/isolation/egress.ts")).measureEgressThroughput(),
  "sandbox.node": async () => (await import("./rows/isolation/sandbox-node.ts")).measureSandboxNode(),
  "sandbox.cold": async () => (await import("./rows/isolation/sandbox.ts")).measureSandboxCold(),
  "sandbox.prewarmed": async () => (await import("./rows/isolation/sandbox.ts")).measureSandboxPrewarmed(),
  "sandbox.rate": async () => (await import("./rows/isolation/sandbox.ts")).measureSandboxRate(),
  "tools.reload": async () => (await import("./rows/packages/tools-reload.ts")).measureToolsReload(),
  "upgrade.switch": async () => (await import("./rows/packages/upgrade-switch.ts")).measureUpgradeSwitch(),
  "supply.install": async () => (await import("./rows/packages/supply-install.ts")).measureSupplyInstall(),
  "npm.fetch": async () => (await import("./rows/packages/npm-fetch.ts")).measureNpmFetch(),
  boot: async () => (await import("./rows/gateway/boot.ts")).measureBoot(),
};

const args = process.argv.slice(2);
const json = args.includes("--json");
const requested = args.filter((arg) => !arg.startsWith("-"));
const names = Object.keys(BENCHMARKS).filter(
  (name) =>
    requested.length === 0 || requested.some((prefix) => name.startsWith(prefix) || prefix.startsWith(name)),
);
const unknown = requested.filter(
  (prefix) => !names.some((name) => name.startsWith(prefix) || prefix.startsWith(name)),
);
if (unknown.length > 0) {
  console.error(
    `Unknown benchmark ${unknown.join(", ")}. Choose from: ${Object.keys(BENCHMARKS).join(", ")}.`,
  );
  process.exit(2);
}

const rows: Row[] = [];
let failed = false;
for (const name of names) {
  try {
    const measured = await BENCHMARKS[name]!();
    for (const row of measured) {
      if (!Number.isFinite(row.ours)) throw new Error(`${row.name} returned ${row.ours}`);
      if (json) console.log(JSON.stringify(row));
    }
    rows.push(...measured);
  } catch (error) {
    failed = true;
    console.error(`${name} could not be measured: ${error instanceof Error ? error.stack : String(error)}`);
  }
}
if (!json) console.log(formatTable(rows));
process.exit(failed ? 1 : 0);
