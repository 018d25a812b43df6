/**
 * `tools/call` over HTTP: an MCP client → the gateway → an MCP server over stdio, in its sandbox, with policy and the
 * durable record, compared with bare Fastify and with published gateways in front of the same server. 1 kB, 32 in
 * flight.
 */
import { buildMcpEcho } from "../../fixtures/echo-package.ts";
import { sendHttpLoad } from "../../measuring/http-load.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median, percentile } from "../../measuring/statistics.ts";
import { withTimeLimit } from "../../measuring/time-limit.ts";
import { type McpPeer, startMcpPeers } from "../../peers/mcp-peers.ts";
import {
  callBody,
  type McpEndpoint,
  type McpSession,
  openSession,
  withoutHandshake,
} from "../../peers/mcp-session.ts";
import {
  readCpuMicros,
  readResidentBytes,
  type Server,
  startBareMcp,
  startGateway,
} from "../../processes/server-process.ts";

interface Target extends McpEndpoint {
  server: Server;
  figures: { rate: number[]; cpu: number[]; p50: number[]; saturated: number[] };
}

const REPETITIONS = 5;
const CALLS = 6_000;
/** The peers are slower, and their figures are stable after fewer calls. */
const PEER_CALLS = 3_000;
const IN_FLIGHT = 32;
const BATCH_TIMEOUT_MS = 120_000;
/** The same warm-up for every gateway: V8 still compiles during the first 20,000 calls. */
const WARM_UP = 20_000;

export async function measureMcpHttp(): Promise<Row[]> {
  const echo = await buildMcpEcho();
  const servers = [await startGateway(), await startBareMcp(echo.program)] as const;
  let peers: McpPeer[] = [];
  try {
    peers = await startMcpPeers(echo.program);
    const [ours, bare] = [createTarget(servers[0], "mcp_mcp_echo"), createTarget(servers[1], "echo")];
    await bindEcho(ours, echo.folder);
    const sessions = new Map([
      [ours, await openSession(ours)],
      [bare, withoutHandshake(bare)],
    ]);
    const published = new Map(peers.map((peer) => [peer, [] as number[]]));
    for (const session of [...sessions.values(), ...peers.map((peer) => peer.session)])
      await measureRate(session, WARM_UP);
    for (let repetition = 0; repetition < REPETITIONS; repetition++) {
      for (const [target, session] of sessions) {
        const before = readCpuMicros(target.server.pid);
        target.figures.rate.push(await measureRate(session, CALLS));
        target.figures.cpu.push((readCpuMicros(target.server.pid) - before) / CALLS);
        target.figures.saturated.push(await measureSaturatedRate(target));
        target.figures.p50.push(percentile(await sendCalls(target, 1, 500), 0.5));
      }
      for (const [{ session }, rates] of published) rates.push(await measureRate(session, PEER_CALLS));
    }
    const both = (name: keyof Target["figures"]) =>
      [median(ours.figures[name]), median(bare.figures[name])] as const;
    const peer_rates = Object.fromEntries([...published].map(([{ key }, rates]) => [key, median(rates)]));
    const resident = servers.map(({ pid }) => readResidentBytes(pid) / 1024 / 1024);
    return [
      createRow("mcp.http-call", "calls/s, 1 kB, 32 in flight, fetch", "higher", ...both("rate"), peer_rates),
      createRow("mcp.http-call.cpu", "gateway µs/call, fetch", "lower", ...both("cpu")),
      createRow("mcp.http-call.saturated", "calls/s, prebuilt requests", "higher", ...both("saturated")),
      createRow("mcp.http-call.p50", "ms, sequential", "lower", ...both("p50")),
      createRow("mcp.http-call.rss", "MB resident after the calls", "lower", resident[0]!, resident[1]!),
    ];
  } finally {
    for (const server of [...servers, ...peers]) await server.stop();
    echo.remove();
  }
}

function createTarget(server: Server, tool: string): Target {
  return {
    server,
    url: `${server.url}/mcp`,
    tool,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(server.token === null ? {} : { authorization: `Bearer ${server.token}` }),
    },
    figures: { rate: [], cpu: [], p50: [], saturated: [] },
  };
}

/** An ordinary client, like those of agents: it uses a whole core. */
async function measureRate(session: McpSession, calls: number): Promise<number> {
  let remaining = calls;
  const worker = async () => {
    while (remaining-- > 0) await session.call();
  };
  const from = performance.now();
  const done = Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  await withTimeLimit(BATCH_TIMEOUT_MS, `${calls} calls`, done);
  return (calls / (performance.now() - from)) * 1000;
}

async function measureSaturatedRate(target: Target): Promise<number> {
  const from = performance.now();
  await sendCalls(target, IN_FLIGHT, CALLS);
  return (CALLS / (performance.now() - from)) * 1000;
}

/** Without a session each call is independent, so one id is enough for all. */
function sendCalls({ url, headers, tool }: Target, connections: number, amount: number): Promise<number[]> {
  return sendHttpLoad({ url, headers, body: callBody(tool, 1) }, connections, amount);
}

async function bindEcho({ server, headers }: Target, folder: string): Promise<void> {
  const post = async (path: string, body: unknown, method = "POST") => {
    const response = await fetch(server.url + path, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path} returned HTTP ${response.status}: ${await response.text()}`);
  };
  await post("/v1/plugin-packages", { source: { folder } });
  await post("/v1/plugin-bindings", { package_id: "bench/mcp", package_version: "1.0.0", export_id: "*" });
  // The risk of a third-party tool is unknown: by default every call from a client would need approval.
  await post("/v1/policy", { tolerance: { conversation: "full" } }, "PATCH");
}
