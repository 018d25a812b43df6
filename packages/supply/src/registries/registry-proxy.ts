/**
 * An HTTP proxy for one run of npm or pip that allows only the configured registries. Without it, a package could
 * declare dependencies at any address, private ones included, and the gateway would fetch them.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";

export interface RegistryProxyOptions {
  /** Such as `https://registry.npmjs.org`. */
  origins: ReadonlySet<string>;
  /** The operator's own proxy for an origin; null if there is none. */
  upstream: (origin: string) => URL | null;
  /** Called with the number of bytes that were received from the registries so far. */
  onReceived?: (bytes: number) => void;
  /** After this many bytes every connection is closed, because a response without an end would fill the disk. */
  max_bytes?: number;
}

export interface RegistryProxy {
  url: string;
  /** Refused requests: a URL, or the origin of an encrypted connection. */
  refused: readonly string[];
  /** Whether the registries have sent more than the limit. */
  readonly exceeded: boolean;
  close(): Promise<void>;
}

/** Twice the maximum unpacked size of a package, because a tool may fetch a file twice. */
export const MAX_REGISTRY_BYTES = 2 * 1024 * 1024 * 1024;

export async function startRegistryProxy({
  origins,
  upstream,
  onReceived,
  max_bytes = MAX_REGISTRY_BYTES,
}: RegistryProxyOptions): Promise<RegistryProxy> {
  const refused: string[] = [];
  let total = 0;
  const countBytes = (chunk: Buffer) => {
    total += chunk.length;
    onReceived?.(total);
    if (total > max_bytes) disconnect();
  };
  const sockets = new Set<Duplex>();
  const disconnect = () => {
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
  };
  const server = createServer((incoming, response) => {
    if (total > max_bytes) return void response.writeHead(403).end();
    const url = parse(incoming.url ?? "");
    if (url === null || !origins.has(url.origin)) {
      refused.push(url?.href ?? String(incoming.url));
      return void response.writeHead(403).end();
    }
    forward(incoming, response, url, upstream(url.origin), countBytes);
  });
  server.on("connect", (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    if (total > max_bytes) return void client.destroy();
    sockets.add(client);
    client.once("close", () => sockets.delete(client)).on("error", () => client.destroy());
    const url = parse(`https://${incoming.url}`);
    if (url === null || !origins.has(url.origin)) {
      refused.push(url?.origin ?? String(incoming.url));
      return void client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    }
    tunnel(client, head, url, upstream(url.origin), countBytes);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refused,
    get exceeded() {
      return total > max_bytes;
    },
    close: () =>
      new Promise((resolve) => {
        disconnect();
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
  upstream_proxy: URL | null,
  countBytes: (chunk: Buffer) => void,
): void {
  const { "proxy-connection": _connection, "proxy-authorization": _login, ...headers } = incoming.headers;
  const { method } = incoming;
  const direct = { host: hostOf(url), port: portOf(url), path: url.pathname + url.search };
  const proxied =
    upstream_proxy === null
      ? direct
      : {
          host: hostOf(upstream_proxy),
          port: portOf(upstream_proxy),
          path: url.href,
          headers: { ...headers, ...loginOf(upstream_proxy) },
        };
  const outgoing = request({ method, headers, ...proxied }, (upstream_response) => {
    response.writeHead(upstream_response.statusCode ?? 502, upstream_response.headers);
    upstream_response.on("data", countBytes).pipe(response);
  });
  // The client has disconnected, or the limit is reached, so the registry must stop sending.
  response.once("close", () => outgoing.destroy());
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
  upstream_proxy: URL | null,
  countBytes: (chunk: Buffer) => void,
): void {
  const destination = upstream_proxy ?? url;
  const secure = upstream_proxy !== null && upstream_proxy.protocol === "https:";
  const options = { host: hostOf(destination), port: portOf(destination) };
  const remote: Socket = secure ? connectTls({ ...options, servername: options.host }) : connect(options);
  const connectStreams = (rest: Buffer) => {
    client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
    if (rest.length > 0) client.write(rest);
    if (head.length > 0) remote.write(head);
    remote.on("data", countBytes).pipe(client).pipe(remote);
  };
  remote.once("error", () => client.destroy()).once("close", () => client.destroy());
  client.once("close", () => remote.destroy());
  remote.once(secure ? "secureConnect" : "connect", () => {
    if (upstream_proxy === null) return connectStreams(Buffer.alloc(0));
    const target = `${url.hostname}:${portOf(url)}`;
    const login = Object.entries(loginOf(upstream_proxy)).map(([name, value]) => `${name}: ${value}\r\n`);
    remote.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${login.join("")}\r\n`);
    let received = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const end = received.indexOf("\r\n\r\n");
      if (end < 0 && received.length < MAX_HEAD_BYTES) return;
      remote.off("data", read);
      if (end < 0 || !/^HTTP\/1\.[01] 200/.test(received.toString("latin1"))) return void remote.destroy();
      connectStreams(received.subarray(end + 4));
    };
    remote.on("data", read);
  });
}

const MAX_HEAD_BYTES = 16_384;

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
