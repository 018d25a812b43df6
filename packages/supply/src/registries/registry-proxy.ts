/**
 * An HTTP proxy for one run of npm or pip that allows only the configured registries. Without it, a package could name
 * dependencies at any address, private ones included, and the gateway would fetch them.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";

export interface RegistryProxyOptions {
  /** Such as `https://registry.npmjs.org`. */
  origins: ReadonlySet<string>;
  /** The operator's own proxy for an origin; null: none. */
  upstream: (origin: string) => URL | null;
  /** Called with the number of bytes that were received from the registries so far. */
  received?: (bytes: number) => void;
}

export interface RegistryProxy {
  url: string;
  /** Refused requests: a URL, or the origin of an encrypted connection. */
  refused: readonly string[];
  close(): Promise<void>;
}

export async function startRegistryProxy({
  origins,
  upstream,
  received,
}: RegistryProxyOptions): Promise<RegistryProxy> {
  const refused: string[] = [];
  let total = 0;
  const count = (chunk: Buffer) => {
    total += chunk.length;
    received?.(total);
  };
  const sockets = new Set<Duplex>();
  const server = createServer((incoming, response) => {
    const url = parse(incoming.url ?? "");
    if (url === null || !origins.has(url.origin)) {
      refused.push(url?.href ?? String(incoming.url));
      return void response.writeHead(403).end();
    }
    forward(incoming, response, url, upstream(url.origin), count);
  });
  server.on("connect", (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    sockets.add(client);
    client.once("close", () => sockets.delete(client)).on("error", () => client.destroy());
    const url = parse(`https://${incoming.url}`);
    if (url === null || !origins.has(url.origin)) {
      refused.push(url?.origin ?? String(incoming.url));
      return void client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    }
    tunnel(client, head, url, upstream(url.origin), count);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refused,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function parse(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  url: URL,
  via: URL | null,
  count: (chunk: Buffer) => void,
): void {
  const { "proxy-connection": _connection, "proxy-authorization": _login, ...headers } = incoming.headers;
  const { method } = incoming;
  const direct = { host: hostOf(url), port: portOf(url), path: url.pathname + url.search };
  const proxied =
    via === null
      ? direct
      : { host: hostOf(via), port: portOf(via), path: url.href, headers: { ...headers, ...loginOf(via) } };
  const outgoing = request({ method, headers, ...proxied }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.on("data", count).pipe(response);
  });
  outgoing.once("error", () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502).end();
  });
  incoming.pipe(outgoing);
}

function tunnel(
  client: Duplex,
  head: Buffer,
  url: URL,
  via: URL | null,
  count: (chunk: Buffer) => void,
): void {
  const to = via ?? url;
  const secure = via !== null && via.protocol === "https:";
  const options = { host: hostOf(to), port: portOf(to) };
  const remote: Socket = secure ? connectTls({ ...options, servername: options.host }) : connect(options);
  const join = (rest: Buffer) => {
    client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
    if (rest.length > 0) client.write(rest);
    if (head.length > 0) remote.write(head);
    remote.on("data", count).pipe(client).pipe(remote);
  };
  remote.once("error", () => client.destroy()).once("close", () => client.destroy());
  client.once("close", () => remote.destroy());
  remote.once(secure ? "secureConnect" : "connect", () => {
    if (via === null) return join(Buffer.alloc(0));
    const target = `${url.hostname}:${portOf(url)}`;
    const login = Object.entries(loginOf(via)).map(([name, value]) => `${name}: ${value}\r\n`);
    remote.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${login.join("")}\r\n`);
    let answer = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      const end = answer.indexOf("\r\n\r\n");
      if (end < 0 && answer.length < MAX_ANSWER) return;
      remote.off("data", read);
      if (end < 0 || !/^HTTP\/1\.[01] 200/.test(answer.toString("latin1"))) return void remote.destroy();
      join(answer.subarray(end + 4));
    };
    remote.on("data", read);
  });
}

const MAX_ANSWER = 16_384;

/** Node expects an IPv6 address without brackets. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "");
}

function portOf(url: URL): number {
  return Number(url.port || (url.protocol === "https:" ? 443 : 80));
}

function loginOf({ username, password }: URL): Record<string, string> {
  if (username === "") return {};
  const plain = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { "proxy-authorization": `Basic ${Buffer.from(plain).toString("base64")}` };
}
