/** `npm run bench [-- NAME… --json]`. Exits with 1 if a row could not be measured, and with 2 for an unknown name. */
import { formatTable, type Row } from "./measuring/row.ts";

const BENCHMARKS: Record<string, () => Promise<Row[]>> = {
  "wire.warm-call": async () => (await import("./rows/calls/wire-warm-call.ts")).wireWarmCall(),
  "runner.warm-call": async () => (await import("./rows/calls/runner-warm-call.ts")).runnerWarmCall(),
  "http.invoke": async () => (await import("./rows/calls/http-invoke.ts")).httpInvoke(),
  "llm.proxy": async () => (await import("./rows/calls/llm-proxy.ts")).llmProxy(),
  "mcp.http-call": async () => (await import("./rows/calls/mcp-http.ts")).mcpHttp(),
  "store.append": async () => (await import("./rows/gateway/store-append.ts")).storeAppend(),
  "bus.dispatch": async () => (await import("./rows/agent/bus-dispatch.ts")).busDispatch(),
  hooks: async () => (await import("./rows/calls/hooks-delivery.ts")).hooksDelivery(),
  "loop.turn": async () => (await import("./rows/agent/loop-turn.ts")).loopTurn(),
  "harness.overhead": async () => (await import("./rows/agent/harness-overhead.ts")).harnessOverhead(),
  "compact.turn": async () => (await import("./rows/agent/compact-turn.ts")).compactChain(),
  "fanout.ws": async () => (await import("./rows/sessions/fanout-ws.ts")).fanoutWs(),
  "session.idle-bytes": async () => (await import("./rows/sessions/session-idle.ts")).sessionIdle(),
  catalog: async () => (await import("./rows/gateway/catalog.ts")).catalog(),
  tape: async () => (await import("./rows/sessions/tape.ts")).tape(),
  "egress.throughput": async () => (await import("./rows/isolation/egress.ts")).egressThroughput(),
  "sandbox.node": async () => (await import("./rows/isolation/sandbox-node.ts")).sandboxNode(),
  "sandbox.cold": async () => (await import("./rows/isolation/sandbox.ts")).sandboxCold(),
  "sandbox.prewarmed": async () => (await import("./rows/isolation/sandbox.ts")).sandboxPrewarmed(),
  "sandbox.rate": async () => (await import("./rows/isolation/sandbox.ts")).sandboxRate(),
  "tools.reload": async () => (await import("./rows/packages/tools-reload.ts")).toolsReload(),
  "upgrade.switch": async () => (await import("./rows/packages/upgrade-switch.ts")).upgradeSwitch(),
  "supply.install": async () => (await import("./rows/packages/supply-install.ts")).supplyInstall(),
  "npm.fetch": async () => (await import("./rows/packages/npm-fetch.ts")).npmFetch(),
  boot: async () => (await import("./rows/gateway/boot.ts")).boot(),
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
