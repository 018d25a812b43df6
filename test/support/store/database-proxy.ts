/**
 * A TCP proxy in front of a test's PostgreSQL, so that a test can make the database unavailable for running gateways: by
 * refusing connections, like a stopped server, or by forwarding nothing, like a broken network.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestPostgres } from "./postgres.ts";

type Outage = "refusing" | "silent";

export interface DatabaseProxy {
  url: string;
  startOutage(kind: Outage): void;
  endOutage(): void;
  close(): Promise<void>;
}

export async function startDatabaseProxy(postgres: TestPostgres): Promise<DatabaseProxy> {
  const target = new URL(postgres.url);
  const folder = target.searchParams.get("host");
  const connectToDatabase = () =>
    folder === null
      ? connect(Number(target.port || 5432), target.hostname)
      : connect(`${folder}/.s.PGSQL.${target.port || 5432}`);
  const sockets = new Set<Socket>();
  let outage: Outage | null = null;

  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  };
  const server = createServer((client) => {
    track(client);
    if (outage === "refusing") {
      client.destroy();
      return;
    }
    const database = connectToDatabase();
    track(database);
    client.on("close", () => database.destroy());
    database.on("close", () => client.destroy());
    client.pipe(database);
    database.pipe(client);
    if (outage === "silent") for (const socket of [client, database]) socket.pause();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(target);
  url.searchParams.delete("host");
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    startOutage(kind) {
      outage = kind;
      for (const socket of sockets) {
        if (kind === "refusing") socket.destroy();
        else socket.pause();
      }
    },
    endOutage() {
      // Stalled connections are closed, as when a network recovers but its old connections do not.
      if (outage === "silent") for (const socket of sockets) socket.destroy();
      outage = null;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
