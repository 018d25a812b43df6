/** The memory of an idle session with one attached client, compared with a bare `ws` connection. */

import { createRow, type Row } from "../../measuring/row.ts";
import { startChild } from "../../processes/child-process.ts";
import { connectClients } from "./watch-clients.ts";

const SESSIONS = 1_000;
const WARM_UP = 200;

interface Memory {
  heap: number;
  rss: number;
}

export async function measureIdleSessions(): Promise<Row[]> {
  const ours = await measurePerClient("ours", (n) => `idle-${n}`);
  const bare = await measurePerClient("bare", null);
  const metric = `bytes each, ${SESSIONS.toLocaleString("en")} sessions, 1 client each`;
  return [
    createRow("session.idle-bytes", `${metric}, resident`, "lower", ours.rss, bare.rss),
    createRow("session.idle-bytes.heap", `${metric}, heap and buffers`, "lower", ours.heap, bare.heap),
  ];
}

/** `session` returns the session that the n-th client attaches to; null measures connections without a session. */
async function measurePerClient(
  kind: "ours" | "bare",
  session: ((n: number) => string) | null,
): Promise<Memory> {
  const server = startChild(new URL("./watch-server.ts", import.meta.url), [kind], ["--expose-gc"]);
  try {
    const { url } = await server.readLine<{ url: string }>();
    // The warm-up keeps one-time compilation and caching out of the measurement.
    const warm_up = await connectClients(url, WARM_UP, session === null ? null : (n) => `warm-${n}`);
    warm_up.close();
    const before = await server.request<Memory>("measure");
    const attached = await connectClients(url, SESSIONS, session);
    const after = await server.request<Memory>("measure");
    attached.close();
    return { heap: (after.heap - before.heap) / SESSIONS, rss: (after.rss - before.rss) / SESSIONS };
  } finally {
    await server.stop();
  }
}
