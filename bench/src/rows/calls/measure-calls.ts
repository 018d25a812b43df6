/** Medians of repetitions in which the peers alternate, so that a slow phase of the machine affects all of them. */
import { median, percentile } from "../../measuring/statistics.ts";
import type { EchoConnection, EchoPeer } from "../../peers/echo-peer.ts";

export interface CallFigures {
  rate: number;
  cpu_us: number;
}

export interface Load {
  text: string;
  in_flight: number;
  calls: number;
  repetitions: number;
}

/** Calls per second and CPU time of the host per call with `in_flight` concurrent calls, for each peer. */
export async function measureRate(peers: EchoPeer[], load: Load): Promise<Map<string, CallFigures>> {
  return withConnections(peers, async (connections) => {
    const rates = new Map<string, number[]>();
    const cpus = new Map<string, number[]>();
    for (const [, connection] of connections)
      await sendCalls(connection, { ...load, calls: Math.ceil(load.calls / 4) });
    for (let repetition = 0; repetition < load.repetitions; repetition++) {
      for (const [key, connection] of connections) {
        const cpu = process.cpuUsage();
        const from = performance.now();
        await sendCalls(connection, load);
        const elapsed = performance.now() - from;
        const used = process.cpuUsage(cpu);
        addSample(rates, key, (load.calls / elapsed) * 1000);
        addSample(cpus, key, (used.user + used.system) / load.calls);
      }
    }
    return mapConnections(connections, (key) => ({
      rate: median(rates.get(key)!),
      cpu_us: median(cpus.get(key)!),
    }));
  });
}

/** p50 and p99 of consecutive calls, in ms. */
export async function measureLatency(
  peers: EchoPeer[],
  load: Load,
): Promise<Map<string, { p50: number; p99: number }>> {
  return withConnections(peers, async (connections) => {
    const p50 = new Map<string, number[]>();
    const p99 = new Map<string, number[]>();
    for (const [, connection] of connections)
      await sendCalls(connection, { ...load, in_flight: 1, calls: 200 });
    for (let repetition = 0; repetition < load.repetitions; repetition++) {
      for (const [key, connection] of connections) {
        const times: number[] = [];
        for (let call = 0; call < load.calls; call++) {
          const from = performance.now();
          await connection.call(load.text);
          times.push(performance.now() - from);
        }
        addSample(p50, key, percentile(times, 0.5));
        addSample(p99, key, percentile(times, 0.99));
      }
    }
    return mapConnections(connections, (key) => ({ p50: median(p50.get(key)!), p99: median(p99.get(key)!) }));
  });
}

async function sendCalls(connection: EchoConnection, load: Load): Promise<void> {
  let remaining = load.calls;
  const worker = async () => {
    while (remaining-- > 0) {
      const echoed = await connection.call(load.text);
      if (echoed.length !== load.text.length)
        throw new Error("the echo does not have the length of the text that was sent");
    }
  };
  await Promise.all(Array.from({ length: load.in_flight }, worker));
}

async function withConnections<T>(
  peers: EchoPeer[],
  use: (connections: [string, EchoConnection][]) => Promise<T>,
) {
  const connections: [string, EchoConnection][] = [];
  try {
    for (const peer of peers) connections.push([peer.key, await peer.open()]);
    return await use(connections);
  } finally {
    for (const [, connection] of connections) await connection.close();
  }
}

function addSample(samples: Map<string, number[]>, key: string, value: number): void {
  const values = samples.get(key);
  if (values === undefined) samples.set(key, [value]);
  else values.push(value);
}

function mapConnections<T>(
  connections: [string, EchoConnection][],
  value: (key: string) => T,
): Map<string, T> {
  return new Map(connections.map(([key]) => [key, value(key)]));
}
