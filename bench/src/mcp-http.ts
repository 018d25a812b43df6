/**
 * `tools/call` over HTTP: an MCP client → the gateway → an MCP server over stdio, in its sandbox, with policy and the
 * durable record on, against bare Fastify in front of the same server. 1 kB, 32 in flight.
 */
import { buildMcpEcho } from "./echo-package.ts";
import { httpLoad } from "./http-load.ts";
import { median, percentile } from "./measure.ts";
import { type Row, row } from "./row.ts";
import { cpuMicros, residentBytes, type Server, startBareMcp, startOurs } from "./server-process.ts";

interface Target {
  server: Server;
  headers: Record<string, string>;
  call: string;
  figures: { rate: number[]; cpu: number[]; p50: number[]; saturated: number[] };
}

const REPETITIONS = 5;
const CALLS = 6_000;
const IN_FLIGHT = 32;

export async function mcpHttp(): Promise<Row[]> {
  const echo = await buildMcpEcho();
  const servers = [await startOurs(), await startBareMcp(echo.program)] as const;
  try {
    const [ours, bare] = [target(servers[0], "mcp_mcp_echo"), target(servers[1], "echo")];
    await bindEcho(ours!, echo.folder);
    await checkEcho(ours!);
    for (const one of [ours!, bare!]) await load(one, IN_FLIGHT, CALLS);
    for (let turn = 0; turn < REPETITIONS; turn++) {
      for (const one of [ours!, bare!]) {
        const before = cpuMicros(one.server.pid);
        one.figures.rate.push(await rateOf(() => fetchCalls(one)));
        one.figures.cpu.push((cpuMicros(one.server.pid) - before) / CALLS);
        one.figures.saturated.push(await rateOf(() => load(one, IN_FLIGHT, CALLS)));
        one.figures.p50.push(percentile(await load(one, 1, 500), 0.5));
      }
    }
    const both = (name: keyof Target["figures"]) =>
      [median(ours!.figures[name]), median(bare!.figures[name])] as const;
    const resident = servers.map(({ pid }) => residentBytes(pid) / 1024 / 1024);
    return [
      row("mcp.http-call", "calls/s, 1 kB, 32 in flight, fetch", "higher", ...both("rate")),
      row("mcp.http-call.cpu", "gateway µs/call, fetch", "lower", ...both("cpu")),
      row("mcp.http-call.saturated", "calls/s, a client that costs nothing", "higher", ...both("saturated")),
      row("mcp.http-call.p50", "ms, sequential", "lower", ...both("p50")),
      row("mcp.http-call.rss", "MB resident after it", "lower", resident[0]!, resident[1]!),
    ];
  } finally {
    for (const server of servers) await server.stop();
    echo.remove();
  }
}

function target(server: Server, name: string): Target {
  return {
    server,
    call: callOf(name),
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(server.token === null ? {} : { authorization: `Bearer ${server.token}` }),
    },
    figures: { rate: [], cpu: [], p50: [], saturated: [] },
  };
}

function callOf(name: string): string {
  const params = { name, arguments: { text: "x".repeat(1000) } };
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
}

async function rateOf(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return (CALLS / (performance.now() - from)) * 1000;
}

/** An ordinary client, as agents are: it takes a core of its own. */
async function fetchCalls({ server, headers, call }: Target): Promise<void> {
  let left = CALLS;
  const worker = async () => {
    while (left-- > 0) {
      const response = await fetch(`${server.url}/mcp`, { method: "POST", headers, body: call });
      await response.arrayBuffer();
      if (response.status !== 200) throw new Error(`answered ${response.status}`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}

/** Without a session each call stands alone, so that one id serves them all. */
function load({ server, headers, call }: Target, connections: number, amount: number): Promise<number[]> {
  return httpLoad({ url: `${server.url}/mcp`, headers, body: call }, connections, amount);
}

async function bindEcho({ server, headers }: Target, folder: string): Promise<void> {
  const post = async (path: string, body: unknown, method = "POST") => {
    const response = await fetch(server.url + path, { method, headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  };
  // Nobody said what the echo does, so that each call would wait for a person.
  await post("/v1/policy", { tolerance: { conversation: "full" } }, "PATCH");
  await post("/v1/plugin-packages", { source: { folder } });
  await post("/v1/plugin-bindings", { package_id: "bench/mcp", package_version: "1.0.0", export_id: "*" });
  // Nobody vouches for a stranger's tool: at the default every call of a client would wait for a person.
  await post("/v1/policy", { tolerance: { conversation: "full" } }, "PATCH");
}

/** That what is measured is what it says: a session opens, and the echo comes back through it. */
async function checkEcho({ server, headers, call }: Target): Promise<void> {
  const send = (more: Record<string, string>, body: string) =>
    fetch(`${server.url}/mcp`, { method: "POST", headers: { ...headers, ...more }, body });
  const hello = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: "2025-11-25" } };
  const opened = await send({}, JSON.stringify(hello));
  const session = opened.headers.get("mcp-session-id");
  if (session === null) throw new Error(`no session was opened: ${await opened.text()}`);
  const answer = await (await send({ "mcp-session-id": session }, call)).text();
  if (!answer.includes('"isError":false')) throw new Error(`the echo does not answer: ${answer}`);
}
