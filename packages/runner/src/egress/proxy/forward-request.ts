/** Forwards a checked HTTP request to a socket that was dialed for it, and relays the response back. */
import { type IncomingMessage, ServerResponse, request as sendHttpRequest } from "node:http";
import type { Socket } from "node:net";
import { endToEndFields, headBytes, headerPairs } from "./http-head.ts";
import type { ProxyConnection } from "./proxy-connection.ts";
import { pump } from "./pump.ts";

export interface ForwardTarget {
  /** The value of the Host field. */
  host: string;
  path: string;
  dial: () => Promise<Socket | null>;
  /** A field that replaces any field of the same name in the request. */
  extra_field?: readonly [name: string, value: string];
}

/** Where the response is written: an ordinary response, or the raw socket of an upgrade. */
export type ReplyTarget = { response: ServerResponse } | { socket: Socket; head: Buffer };

export async function forward(
  connection: ProxyConnection,
  request: IncomingMessage,
  reply: ReplyTarget,
  { host, path, dial, extra_field }: ForwardTarget,
): Promise<void> {
  await connection.state.whenReleased();
  if (connection.ended) return;
  if (!connection.acquireSlot()) return sendProxyResponse(request, reply, 429, "Too many connections.\n");
  let holds_slot = true;
  const releaseSlot = () => {
    if (holds_slot) connection.releaseSlot();
    holds_slot = false;
  };
  const upstream = await dial();
  // The session may have been held while the socket was dialed.
  await connection.state.whenReleased();
  if (connection.ended) return;
  if (upstream === null) {
    releaseSlot();
    return sendProxyResponse(request, reply, 502, `${host} cannot be reached.\n`);
  }
  const upgrade = "socket" in reply ? request.headers.upgrade : undefined;
  const fields: [string, string][] = [
    ["Host", host],
    ...endToEndFields(request, extra_field === undefined ? ["host"] : ["host", extra_field[0].toLowerCase()]),
    ...(extra_field === undefined ? [] : [[...extra_field] as [string, string]]),
    ...(upgrade === undefined
      ? [["Connection", "close"] as [string, string]]
      : [["Connection", "Upgrade"] as [string, string], ["Upgrade", upgrade] as [string, string]]),
  ];
  if (request.headers["transfer-encoding"] !== undefined) fields.push(["Transfer-Encoding", "chunked"]);
  if (!connection.countOut(headBytes(`${request.method} ${path}`, fields))) return;
  const sent = sendHttpRequest({
    createConnection: () => upstream,
    method: request.method!,
    path,
    headers: fields.flat(),
    setHost: false,
    maxHeaderSize: connection.state.limits.head_bytes,
  });
  sent.on("error", () => {
    upstream.destroy();
    releaseSlot();
    // A server may respond and close before it has read the whole request.
    if ("response" in reply && reply.response.writableEnded) return;
    if ("response" in reply && reply.response.headersSent) connection.end();
    else sendProxyResponse(request, reply, 502, `${host} sent a response that cannot be read.\n`);
  });
  sent.on("response", (upstream_response) =>
    relayResponse(connection, request, reply, upstream_response, releaseSlot),
  );
  sent.on("upgrade", (upstream_response, socket, head) =>
    connection.endOnError(relayUpgrade(connection, reply, upstream_response, socket as Socket, head)),
  );
  if ("response" in reply) {
    reply.response.once("close", () => {
      upstream.destroy();
      releaseSlot();
    });
    pump(request, sent, connection.countOut, connection.state);
  } else {
    sent.end();
  }
}

function relayResponse(
  connection: ProxyConnection,
  request: IncomingMessage,
  reply: ReplyTarget,
  upstream_response: IncomingMessage,
  releaseSlot: () => void,
): void {
  const fields = endToEndFields(upstream_response);
  const response = "response" in reply ? reply.response : responseOn(request, reply.socket);
  if (response.destroyed || !connection.countIn(headBytes(upstream_response.statusMessage ?? "", fields)))
    return;
  try {
    response.writeHead(upstream_response.statusCode!, upstream_response.statusMessage, fields.flat());
  } catch {
    upstream_response.destroy();
    connection.end();
    return;
  }
  // A truncated response must not look complete.
  upstream_response.on("error", () => {});
  upstream_response.once("close", () => {
    if (!upstream_response.complete) connection.end();
  });
  response.once("close", releaseSlot);
  pump(upstream_response, response, connection.countIn, connection.state);
}

async function relayUpgrade(
  connection: ProxyConnection,
  reply: ReplyTarget,
  upstream_response: IncomingMessage,
  upstream: Socket,
  head: Buffer,
): Promise<void> {
  // The first bytes are written below without a pump, which would wait while the session is held.
  await connection.state.whenReleased();
  if (connection.ended) return;
  if ("response" in reply) {
    connection.end();
    return;
  }
  const fields = headerPairs(upstream_response.rawHeaders);
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const first = `HTTP/1.1 101 ${upstream_response.statusMessage}\r\n`;
  if (!connection.countIn(headBytes(first, fields) + head.length) || !connection.countOut(reply.head.length))
    return;
  reply.socket.write(`${first}${lines}\r\n`, "latin1");
  if (head.length > 0) reply.socket.write(head);
  if (reply.head.length > 0) upstream.write(reply.head);
  pump(upstream, reply.socket, connection.countIn, connection.state);
  pump(reply.socket, upstream, connection.countOut, connection.state);
  connection.closeWith(upstream);
}

/** Sends a response of the proxy itself and closes the connection. */
export function sendProxyResponse(
  request: IncomingMessage,
  reply: ReplyTarget,
  status: number,
  text: string,
): void {
  const response = "response" in reply ? reply.response : responseOn(request, reply.socket);
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "backplane-egress": "refused",
    connection: "close",
  });
  response.end(text);
}

function responseOn(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => socket.end());
  return response;
}
