/**
 * Frames/s and CPU time per frame when one event goes to 500 sockets in another process, from the moment it is on the
 * tape, compared with a bare `ws` server that broadcasts the same text. Every event is sent in its own tick, so
 * neither side gains from batching.
 */

import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";
import { type Child, startChild } from "../../processes/child-process.ts";
import { startBareServer, startWatchServer, type WatchServer } from "./watch-server.ts";

const CLIENTS = 500;
const EVENTS = 80;
const REPETITIONS = 9;
const TEXT = "some words that a person or a model would say. ".repeat(4);

interface Side {
  server: WatchServer;
  clients: Child;
  frames: number;
  rates: number[];
  cpu: number[];
}

export async function measureFanout(): Promise<Row[]> {
  const ours = await createSide(await startWatchServer(), "watched");
  const bare = await createSide(await startBareServer(), null);
  try {
    for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
      for (const side of repetition % 2 === 0 ? [ours, bare] : [bare, ours])
        await measure(side, repetition === 0);
    }
    const metric = `frames/s, ${CLIENTS} clients, 0.3 kB`;
    return [
      createRow("fanout.ws", metric, "higher", median(ours.rates), median(bare.rates)),
      createRow("fanout.ws.cpu", "server µs/frame", "lower", median(ours.cpu), median(bare.cpu)),
    ];
  } finally {
    for (const { clients, server } of [ours, bare]) {
      await clients.stop();
      await server.close();
    }
  }
}

async function createSide(server: WatchServer, session: string | null): Promise<Side> {
  const clients = startChild(new URL("./watch-clients.ts", import.meta.url));
  await clients.request({ url: server.url, clients: CLIENTS, session });
  // Waits for the frames that a session sends when a client attaches, so that they are not counted.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const { frames } = await clients.request<{ frames: number }>({ reach: 0 });
  return { server, clients, frames, rates: [], cpu: [] };
}

async function measure(side: Side, warm_up: boolean): Promise<void> {
  side.frames += EVENTS * CLIENTS;
  const received = side.clients.request({ reach: side.frames });
  const cpu = process.cpuUsage();
  const from = performance.now();
  for (let n = 0; n < EVENTS; n++) {
    side.server.publish(TEXT);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await received;
  const elapsed = performance.now() - from;
  const { user, system } = process.cpuUsage(cpu);
  if (warm_up) return;
  side.rates.push(((EVENTS * CLIENTS) / elapsed) * 1000);
  side.cpu.push((user + system) / (EVENTS * CLIENTS));
}
