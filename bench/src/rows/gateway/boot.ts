/** Time from spawn to ready, and idle memory without plugins, compared with bare Fastify. */

import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";
import {
  readResidentBytes,
  type Server,
  startBareFastify,
  startGateway,
} from "../../processes/server-process.ts";

export async function measureBoot(): Promise<Row[]> {
  const ready = { ours: [] as number[], bare: [] as number[] };
  const memory = { ours: [] as number[], bare: [] as number[] };
  const targets: { key: "ours" | "bare"; start: () => Promise<Server> }[] = [
    { key: "ours", start: () => startGateway() },
    { key: "bare", start: startBareFastify },
  ];
  for (let repetition = 0; repetition < 6; repetition++) {
    for (const { key, start } of targets) {
      const server = await start();
      const health = await fetch(`${server.url}/healthz`);
      if (health.status !== 200) throw new Error(`${key} returned HTTP ${health.status}`);
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      const resident = readResidentBytes(server.pid) / 1024 / 1024;
      await server.stop();
      // The first round warms the disk cache and the compile cache for both.
      if (repetition === 0) continue;
      ready[key].push(server.ready_ms);
      memory[key].push(resident);
    }
  }
  return [
    createRow("boot.ready", "ms from spawn to ready", "lower", median(ready.ours), median(ready.bare)),
    createRow("boot.rss", "MB resident, idle", "lower", median(memory.ours), median(memory.bare)),
  ];
}
