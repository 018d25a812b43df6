/** A web server that records its requests, and a client that sends requests through a proxy. */
import { createServer, request as sendRequest } from "node:http";
import { onTestFinished } from "vitest";
import { PUBLIC } from "./egress.ts";

/** Listens on PUBLIC by default. */
export async function startHttpServer(address = PUBLIC) {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method, url, headers } = request;
      requests.push(`${method} ${url} ${headers.host}`);
      response.setHeader("x-seen", JSON.stringify(headers));
      response.end(Buffer.concat([Buffer.from(`${headers.host}:`), ...chunks]));
    });
  });
  server.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { requests, port: (server.address() as { port: number }).port };
}

export function requestThroughProxy(
  proxy: number,
  url: string,
  change: { method?: string; headers?: object; body?: Buffer } = {},
) {
  return new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>(
    (resolve, reject) => {
      const { body, headers, method } = change;
      const host = new URL(url).host;
      const sent = sendRequest(
        { port: proxy, path: url, method: method ?? "GET", headers: { host, ...headers } },
        (response) => {
          let text = "";
          response.setEncoding("latin1").on("data", (chunk: string) => {
            text += chunk;
          });
          response.on("end", () =>
            resolve({ status: response.statusCode!, body: text, headers: response.headers }),
          );
        },
      );
      sent.on("error", reject);
      sent.end(body);
    },
  );
}
