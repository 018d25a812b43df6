/**
 * A load generator with little cost of its own: prebuilt requests over keep-alive sockets, one in flight on each.
 * (autocannon ends its runs on whole seconds, which is too coarse for runs of a second.)
 */
import { connect, type Socket } from "node:net";

export interface HttpRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** Sends `count` POST requests over `connections` sockets and expects 200 for each. Returns the latencies in ms. */
export async function sendHttpLoad(
  request: HttpRequest,
  connections: number,
  count: number,
): Promise<number[]> {
  const url = new URL(request.url);
  const headers = Object.entries({
    host: url.host,
    ...request.headers,
    "content-length": Buffer.byteLength(request.body),
  });
  const head = `POST ${url.pathname}${url.search} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}`).join("\r\n")}`;
  const bytes = Buffer.from(`${head}\r\n\r\n${request.body}`);
  const times: number[] = [];
  let remaining = count;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = await openConnection(url);
      while (remaining-- > 0) {
        const from = performance.now();
        await connection.send(bytes);
        times.push(performance.now() - from);
      }
      connection.socket.destroy();
    }),
  );
  return times;
}

interface Connection {
  socket: Socket;
  send(bytes: Buffer): Promise<void>;
}

async function openConnection(url: URL): Promise<Connection> {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  let unread: Buffer = Buffer.alloc(0);
  let waiting: PromiseWithResolvers<void> | null = null;
  socket.on("data", (chunk: Buffer) => {
    unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
    const end = unread.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = unread.toString("latin1", 0, end).toLowerCase();
    const length = Number(/content-length: (\d+)/.exec(head)?.[1]);
    if (unread.length < end + 4 + length) return;
    const status = head.slice(9, 12);
    const body = unread.toString("utf8", end + 4, end + 4 + length);
    unread = unread.subarray(end + 4 + length);
    if (status === "200") waiting!.resolve();
    else waiting!.reject(new Error(`the server returned ${status}: ${body.slice(0, 300)}`));
  });
  const broken = (error?: Error) => waiting?.reject(error ?? new Error("the server closed the connection"));
  socket.on("error", broken);
  socket.on("close", () => broken());
  return {
    socket,
    send(bytes) {
      waiting = Promise.withResolvers();
      socket.write(bytes);
      return waiting.promise;
    },
  };
}
