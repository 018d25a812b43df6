/** The cost of saving a tool file: the time until it is loaded, and the memory that a thousand reloads leave. */
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";
import { startChild } from "../../processes/child-process.ts";

const RELOADS = Number(process.env.BENCH_RELOADS ?? 1_000);
/** One-time compilation and caching happen before the first reading. */
const WARM_UP = Math.min(100, RELOADS);
const TIMED = 20;
const MAX_MB = 5;
const MAX_MS = 1_000;

export async function measureToolsReload(): Promise<Row[]> {
  const server = startChild(
    new URL("../../children/reload-gateway.ts", import.meta.url),
    [],
    ["--expose-gc"],
  );
  let base: string | null = null;
  try {
    const { url, token, folder, blobs } =
      await server.readLine<Record<"url" | "token" | "folder" | "blobs", string>>();
    base = dirname(folder);
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    let saves = 0;
    /** Returns the description by which this version of the tool is recognized. */
    const save = () => {
      const description = `version ${++saves}`;
      const text = `export default { description: "${description}", execute: () => ({ content: "${description}" }) };\n`;
      writeFileSync(join(folder, "tools/saved.ts"), text);
      return description;
    };
    const trust = async (watch: boolean) => {
      const body = JSON.stringify({ path: folder, watch });
      const response = await fetch(`${url}/v1/workspaces`, { method: "POST", headers, body });
      if (response.status !== 200) throw new Error(await response.text());
      await response.arrayBuffer();
    };
    const reload = async (times: number) => {
      for (let n = 0; n < times; n++) {
        save();
        await trust(false);
      }
    };
    await reload(WARM_UP);
    const before = await server.request<{ heap: number }>("measure");
    await reload(RELOADS);
    const after = await server.request<{ heap: number }>("measure");
    const snapshots = readdirSync(blobs).length;
    if (snapshots > 2) throw new Error(`${snapshots} snapshots are left in the content store`);

    await trust(true);
    const times_ms: number[] = [];
    for (let n = 0; n < TIMED; n++) {
      const from = performance.now();
      await waitUntilListed(url, headers, save());
      times_ms.push(performance.now() - from);
    }
    const growth = (after.heap - before.heap) / 1024 / 1024;
    const metric = `MB of heap grown over ${RELOADS.toLocaleString("en")} reloads`;
    return [
      createRow("tools.reload-heap", metric, "lower", growth, MAX_MB),
      createRow("tools.reload", "ms from save to loaded, one tool file", "lower", median(times_ms), MAX_MS),
    ];
  } finally {
    await server.stop();
    if (base !== null) rmSync(base, { recursive: true, force: true });
  }
}

async function waitUntilListed(
  url: string,
  headers: Record<string, string>,
  description: string,
): Promise<void> {
  for (;;) {
    const response = await fetch(`${url}/v1/plugin-tools`, { headers });
    const { items } = (await response.json()) as { items: { description: string }[] };
    if (items.some((tool) => tool.description === description)) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
