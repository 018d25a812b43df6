/** A proxy to the gateway that can drop all its connections immediately, in the middle of any transfer. */
import { connect, createServer, type Socket } from "node:net";

export interface CutProxy {
  url: string;
  cut(): void;
  /** The number of dropped connections. */
  cuts(): number;
  close(): Promise<void>;
}

export async function startCutProxy(target: string, listen = 0): Promise<CutProxy> {
  const { port } = new URL(target);
  const connections = new Set<Socket>();
  let cuts = 0;
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
  const cut = () => {
    for (const socket of connections) {
      cuts++;
      socket.resetAndDestroy();
    }
  };
  return {
    url: `http://127.0.0.1:${address.port}`,
    cut,
    cuts: () => cuts,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}
