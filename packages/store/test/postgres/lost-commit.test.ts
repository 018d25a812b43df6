/** Connections that break after the database has committed: nothing is written twice or reported as lost. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { openPostgresStore } from "../../src/index.ts";
import { brief, freshKey, message, newChain, newSession, start } from "../support/sample-sessions.ts";
import { sampleInvocation } from "../support/samples.ts";

/**
 * Forwards everything, but closes the connection instead of returning the response to the next message that contains
 * `trigger`.
 */
async function startDroppingProxy(url: string) {
  const target = new URL(url);
  const folder = target.searchParams.get("host");
  const state: { trigger: string | null; dropped: number } = { trigger: null, dropped: 0 };
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const database =
      folder === null ? connect(Number(target.port), target.hostname) : connect(`${folder}/.s.PGSQL.5432`);
    let drop_response = false;
    for (const socket of [client, database]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    client.on("data", (chunk) => {
      if (state.trigger !== null && chunk.includes(state.trigger)) {
        drop_response = true;
        state.trigger = null;
        state.dropped++;
      }
      database.write(chunk);
    });
    database.on("data", (chunk) => {
      // The response means that the statement has completed.
      if (drop_response) client.destroy();
      else client.write(chunk);
    });
    client.on("close", () => database.destroy());
    database.on("close", () => client.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxied = new URL(target);
  proxied.searchParams.delete("host");
  proxied.hostname = "127.0.0.1";
  proxied.port = String((server.address() as AddressInfo).port);
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { url: proxied.href, state, close };
}

test("writes once when the connection breaks before the commit is acknowledged", async () => {
  const postgres = await startPostgres();
  const proxy = await startDroppingProxy(postgres.url);
  const store = await openPostgresStore({ url: proxy.url });
  onTestFinished(async () => {
    await store.close();
    proxy.close();
    await postgres.stop();
  });
  const key = freshKey();
  await store.sessions.create(newSession(key), newChain(), [start], {});
  proxy.state.trigger = "commit";
  expect(await store.sessions.append(key, [message("a")])).toMatchObject({ first_id: 2, last_id: 2 });
  expect((await store.sessions.replay(key, 1, 9)).map(brief)).toEqual(["2 a"]);

  // A single statement, which commits implicitly.
  const row = sampleInvocation(key.scope);
  proxy.state.trigger = row.id;
  expect(await store.invocations.open(row, { records: {} })).toBeNull();
  expect(await store.invocations.get(key.scope, row.id)).toMatchObject({ status: "running" });
  expect(proxy.state.dropped).toBe(2);
}, 60_000);
