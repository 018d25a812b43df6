/** Servers on loopback that close with the test. */
import { createServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface LoopbackServer {
  server: Server;
  port: number;
}

export async function listen(
  onSocket: (socket: Socket) => void,
  address = "127.0.0.1",
  port = 0,
): Promise<LoopbackServer> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    onSocket(socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, address, resolve);
  });
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { server, port: (server.address() as { port: number }).port };
}
