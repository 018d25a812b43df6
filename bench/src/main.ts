/** `npm run bench [-- NAME… --json]`. Exit code 1 when a row could not be measured. */
import { type Row, table } from "./row.ts";

const BENCHES: Record<string, () => Promise<Row[]>> = {
  "wire.warm-call": async () => (await import("./wire-warm-call.ts")).wireWarmCall(),
  "runner.warm-call": async () => (await import("./runner-warm-call.ts")).runnerWarmCall(),
  "http.invoke": async () => (await import("./http-invoke.ts")).httpInvoke(),
  "mcp.http-call": async () => (await import("./mcp-http.ts")).mcpHttp(),
  "store.append": async () => (await import("./store-append.ts")).storeAppend(),
  "bus.dispatch": async () => (await import("./bus-dispatch.ts")).busDispatch(),
  "loop.turn": async () => (await import("./loop-turn.ts")).loopTurn(),
  "fanout.ws": async () => (await import("./fanout-ws.ts")).fanoutWs(),
  "session.idle-bytes": async () => (await import("./session-idle.ts")).sessionIdle(),
  catalog: async () => (await import("./catalog.ts")).catalog(),
  tape: async () => (await import("./tape.ts")).tape(),
  "egress.throughput": async () => (await import("./egress.ts")).egressThroughput(),
  "sandbox.node": async () => (await import("./sandbox-peers.ts")).sandboxNode(),
  "sandbox.cold": async () => (await import("./sandbox.ts")).sandboxCold(),
  "sandbox.prewarmed": async () => (await import("./sandbox.ts")).sandboxPrewarmed(),
  "sandbox.rate": async () => (await import("./sandbox.ts")).sandboxRate(),
  "tools.reload": async () => (await import("./tools-reload.ts")).toolsReload(),
  boot: async () => (await import("./boot.ts")).boot(),
};

const words = process.argv.slice(2);
const json = words.includes("--json");
const wanted = words.filter((word) => !word.startsWith("-"));
const names = Object.keys(BENCHES).filter(
  (name) => wanted.length === 0 || wanted.some((word) => name.startsWith(word) || word.startsWith(name)),
);
const unknown = wanted.filter(
  (word) => !names.some((name) => name.startsWith(word) || word.startsWith(name)),
);
if (unknown.length > 0) {
  console.error(`no such bench: ${unknown.join(", ")}; there are ${Object.keys(BENCHES).join(", ")}`);
  process.exit(2);
}

const rows: Row[] = [];
let failed = false;
for (const name of names) {
  try {
    const measured = await BENCHES[name]!();
    for (const line of measured) {
      if (!Number.isFinite(line.ours)) throw new Error(`${line.name} gave no figure`);
      if (json) console.log(JSON.stringify(line));
    }
    rows.push(...measured);
  } catch (error) {
    failed = true;
    console.error(`${name} could not be measured: ${error instanceof Error ? error.stack : String(error)}`);
  }
}
if (!json) console.log(table(rows));
process.exit(failed ? 1 : 0);
