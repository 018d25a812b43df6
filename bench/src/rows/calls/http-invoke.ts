/** A call through the door over HTTP (authenticated, admitted, committed twice), compared with bare Fastify. */
import { buildEchoPackage } from "../../fixtures/echo-package.ts";
import { sendHttpLoad } from "../../measuring/http-load.ts";
import { createRow, type Row } from "../../measuring/row.ts";
import { median, percentile } from "../../measuring/statistics.ts";
import {
  readCpuMicros,
  type Server,
  startBareFastify,
  startGateway,
} from "../../processes/server-process.ts";

interface Target {
  key: "ours" | "bare";
  server: Server;
  path: string;
  headers: Record<string, string>;
  body: string;
}

const REPETITIONS = 5;
const CALLS = 6_000;

export async function measureHttpInvoke(): Promise<Row[]> {
  const echo = await buildEchoPackage();
  const ours = await startGateway();
  const bare = await startBareFastify();
  try {
    const headers = { "content-type": "application/json", authorization: `Bearer ${ours.token}` };
    await bindEcho(ours, headers, echo.folder);
    const input = { text: "x".repeat(1000) };
    const targets: Target[] = [
      {
        key: "ours",
        server: ours,
        path: "/v1/invocations?wait=true",
        headers,
        body: JSON.stringify({ export_id: "echo", input }),
      },
      { key: "bare", server: bare, path: "/v1/invocations", headers, body: JSON.stringify({ input }) },
    ];
    // The warm-up lets V8 compile both, so that the steady state is measured.
    for (const target of targets) await sendPrebuilt(target, 32, 12_000);
    const figures = { ours: createFigures(), bare: createFigures() };
    for (let repetition = 0; repetition < REPETITIONS; repetition++) {
      for (const target of targets) {
        const target_figures = figures[target.key];
        const before = readCpuMicros(target.server.pid);
        target_figures.rate.push(await measureFetchRate(target, 32, CALLS));
        target_figures.cpu.push((readCpuMicros(target.server.pid) - before) / CALLS);
        const times = await sendPrebuilt(target, 1, 500);
        target_figures.p50.push(percentile(times.latencies, 0.5));
        target_figures.p99.push(percentile(times.latencies, 0.99));
        target_figures.saturated.push((await sendPrebuilt(target, 32, CALLS)).rate);
      }
    }
    const both = (name: keyof Figures) => [median(figures.ours[name]), median(figures.bare[name])] as const;
    return [
      createRow("http.invoke", "calls/s, 1 kB, 32 in flight, fetch", "higher", ...both("rate")),
      createRow("http.invoke.cpu", "gateway µs/call, fetch", "lower", ...both("cpu")),
      createRow("http.invoke.p50", "ms, sequential", "lower", ...both("p50")),
      createRow("http.invoke.p99", "ms, sequential", "lower", ...both("p99")),
      createRow("http.invoke.saturated", "calls/s, prebuilt requests", "higher", ...both("saturated")),
    ];
  } finally {
    await ours.stop();
    await bare.stop();
    echo.remove();
  }
}

async function bindEcho(server: Server, headers: Record<string, string>, folder: string): Promise<void> {
  await post(server, headers, "/v1/plugin-packages", { source: { folder } });
  await post(server, headers, "/v1/plugin-bindings", {
    package_id: "bench/echo",
    package_version: "1.0.0",
    export_id: "echo",
    policy: { class: "worker" },
  });
  const call = await post(server, headers, "/v1/invocations?wait=true", {
    export_id: "echo",
    input: { text: "hello" },
  });
  if (call.status !== "succeeded")
    throw new Error(`the echo tool returned an unexpected result: ${JSON.stringify(call)}`);
}

async function post(server: Server, headers: Record<string, string>, path: string, body: unknown) {
  const response = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  const result = (await response.json()) as { status?: string };
  if (!response.ok) throw new Error(`${path} returned HTTP ${response.status}: ${JSON.stringify(result)}`);
  return result;
}

interface Figures {
  rate: number[];
  cpu: number[];
  p50: number[];
  p99: number[];
  saturated: number[];
}

const createFigures = (): Figures => ({ rate: [], cpu: [], p50: [], p99: [], saturated: [] });

/** An ordinary client, like those of agents: it uses a whole core and is the main limit for both. */
async function measureFetchRate(target: Target, in_flight: number, amount: number): Promise<number> {
  let remaining = amount;
  const from = performance.now();
  await Promise.all(
    Array.from({ length: in_flight }, async () => {
      while (remaining-- > 0) {
        const { headers, body } = target;
        const response = await fetch(target.server.url + target.path, { method: "POST", headers, body });
        await response.arrayBuffer();
        if (response.status !== 200) throw new Error(`${target.key} returned HTTP ${response.status}`);
      }
    }),
  );
  return (amount / (performance.now() - from)) * 1000;
}

async function sendPrebuilt(target: Target, connections: number, amount: number) {
  const from = performance.now();
  const latencies = await sendHttpLoad(
    { url: target.server.url + target.path, headers: target.headers, body: target.body },
    connections,
    amount,
  );
  return { latencies, rate: (amount / (performance.now() - from)) * 1000 };
}
