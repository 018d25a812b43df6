/**
 * A server in which only `/ws` works, with the real store, sessions, bus, fan-out and API. As a separate process
 * (`node --expose-gc src/rows/sessions/watch-server.ts ours|bare`) it prints its address and answers each line on stdin
 * with `{"heap", "rss"}`; the line `end` stops it. `bare` is a plain `ws` server.
 */

import { hash, randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createFanout } from "@backplane/agent";
import { createApi } from "@backplane/api";
import { createIdSource, type Entry } from "@backplane/contract";
import type { Kernel } from "@backplane/ports";
import { createBus, createSessions, type TapeFeed } from "@backplane/session";
import { openSqliteStore } from "@backplane/store";
import { realTimeClock as clock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { WebSocketServer } from "ws";

export const TOKEN = "the-token-of-the-bench";
const KEY = {
  scope: { org_id: "org_local", project_id: "proj_default" },
  workspace: "default",
  session_id: "watched",
};

export interface WatchServer {
  url: string;
  /** Publishes one more entry to the watchers of session `watched`, as the tape does after its commit. */
  publish(text: string): void;
  close(): Promise<void>;
}

export async function startWatchServer(): Promise<WatchServer> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-watch-"));
  const store = await openSqliteStore({ file: join(folder, "store.db") });
  const ids = createIdSource(Date.now, (bytes) => randomFillSync(bytes));
  const log = createTestLogger();
  const bus = createBus({ clock, ids, log, pause: setImmediate });
  const sessions = createSessions({ store, clock, ids });
  let listener: Parameters<TapeFeed["onWritten"]>[0] = ignore;
  const feed: TapeFeed = {
    onWritten(onWritten) {
      listener = onWritten;
      return ignore;
    },
  };
  const fanout = createFanout({ store, sessions, bus, feed, clock, ids, log });
  const api = await createApi({
    // The rest of the kernel is not used.
    kernel: {
      fanout,
      adapters: { list: () => [], isDisabled: () => false, onDisabled: ignore },
      catalog: { onChanged: () => ignore },
      servers: { onNotification: () => ignore },
    } as unknown as Kernel,
    auth: { admin_token_sha256: hash("sha256", TOKEN) },
    listen: { hosts: [] },
    version: "0",
    clock,
    ids,
    log,
  });
  const url = await api.listen({ host: "127.0.0.1", port: 0 });
  let last = (await sessions.open(KEY)).last_entry_id;
  return {
    url: url.replace("http:", "ws:"),
    publish(text) {
      const event = createEvent(text);
      const payload = { role: "user", content: text };
      const entry: Entry = { id: ++last, kind: "message", payload, meta: {}, date: new Date().toISOString() };
      listener(KEY, [{ entry, event }]);
    },
    async close() {
      await api.close();
      fanout.close();
      bus.close();
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * Starts a plain `ws` server. Its `publish` broadcasts as the documentation of `ws` recommends: it builds the text once
 * and the frame for each client.
 */
export async function startBareServer(): Promise<WatchServer> {
  const http = createServer();
  const server = new WebSocketServer({ server: http });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  let last = 0;
  return {
    url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}`,
    publish(text) {
      const { org_id: _org, project_id: _project, ...event } = createEvent(text);
      const json = JSON.stringify({ op: "event", session_id: "watched", event, entry_id: ++last });
      for (const client of server.clients) client.send(json);
    },
    async close() {
      for (const client of server.clients) client.terminate();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

function createEvent(text: string) {
  return {
    id: "evt_01k00000000000000000000000",
    kind: "user.message.received",
    session_id: "watched",
    ts: Date.now() / 1000,
    source: "web",
    ...KEY.scope,
    payload: { text },
  };
}

function ignore(): void {}

if (import.meta.main) {
  const server = await (process.argv[2] === "bare" ? startBareServer() : startWatchServer());
  console.log(JSON.stringify({ url: server.url }));
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "end") break;
    for (let n = 0; n < 3; n++) {
      globalThis.gc!();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const { heapUsed, rss, external } = process.memoryUsage();
    console.log(JSON.stringify({ heap: heapUsed + external, rss }));
  }
  process.exit(0);
}
