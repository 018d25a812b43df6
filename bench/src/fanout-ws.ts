/**
 * One event to 500 sockets of another process, from the moment it is on the tape, against bare `ws` broadcasting the
 * same text. Every event has a turn of its own, so neither side gains from putting events together.
 */
import { median } from "./measure.ts";
import { type Row, row } from "./row.ts";
import { type Child, startChild } from "./talk-to.ts";
import { startBare, startWatched, type WatchServer } from "./watch-server.ts";

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

export async function fanoutWs(): Promise<Row[]> {
  const ours = await openSide(await startWatched(), "watched");
  const bare = await openSide(await startBare(), null);
  try {
    for (let turn = 0; turn <= REPETITIONS; turn++) {
      for (const side of turn % 2 === 0 ? [ours, bare] : [bare, ours]) await measure(side, turn === 0);
    }
    const metric = `frames/s, ${CLIENTS} clients, 0.3 kB`;
    return [
      row("fanout.ws", metric, "higher", median(ours.rates), median(bare.rates)),
      row("fanout.ws.cpu", "server µs/frame", "lower", median(ours.cpu), median(bare.cpu)),
    ];
  } finally {
    for (const { clients, server } of [ours, bare]) {
      await clients.stop();
      await server.close();
    }
  }
}

async function openSide(server: WatchServer, session: string | null): Promise<Side> {
  const clients = startChild("./watch-clients.ts");
  await clients.ask({ url: server.url, clients: CLIENTS, session });
  // What attaching itself sends has come by then.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const { frames } = await clients.ask<{ frames: number }>({ reach: 0 });
  return { server, clients, frames, rates: [], cpu: [] };
}

async function measure(side: Side, warm_up: boolean): Promise<void> {
  side.frames += EVENTS * CLIENTS;
  const all = side.clients.ask({ reach: side.frames });
  const cpu = process.cpuUsage();
  const from = performance.now();
  for (let n = 0; n < EVENTS; n++) {
    side.server.tell(TEXT);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await all;
  const took = performance.now() - from;
  const { user, system } = process.cpuUsage(cpu);
  if (warm_up) return;
  side.rates.push(((EVENTS * CLIENTS) / took) * 1000);
  side.cpu.push((user + system) / (EVENTS * CLIENTS));
}
