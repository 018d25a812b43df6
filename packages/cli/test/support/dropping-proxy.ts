/** A proxy to the gateway that can drop all its connections immediately, even in the middle of a transfer. */
import { connect, createServer, type Socket } from "node:net";

export interface DroppingProxy {
  url: string;
  dropConnections(): void;
  /** The number of dropped connections. */
  dropped(): number;
  close(): Promise<void>;
}

export async function startDroppingProxy(target: string, listen = 0): Promise<DroppingProxy> {
  const { port } = new URL(target);
  const connections = new Set<Socket>();
  let dropped = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(port), "127.0.0.1");
    connections.add(client);
    client.on("close", () => {
      connections.delete(client);
      upstream.destroy();
    });
    upstream.on("close", () => client.destroy());
    client.on("error", () => {});
    upstream.on("error", () => {});
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(listen, "127.0.0.1", resolve));
  const address = server.address() as { port: number };
  const dropConnections = () => {
    for (const socket of connections) {
      dropped++;
      socket.resetAndDestroy();
    }
  };
  return {
    url: `http://127.0.0.1:${address.port}`,
    dropConnections,
    dropped: () => dropped,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        dropConnections();
      }),
  };
}
