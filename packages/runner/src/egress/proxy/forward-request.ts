/** One checked HTTP request to the socket that was dialled for it, and its answer back. */
import { request as ask, type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Passage } from "./connection.ts";
import { headBytes, pairs, travelling } from "./http-head.ts";
import { pump } from "./pump.ts";

export interface Errand {
  /** Value of the Host field. */
  host: string;
  path: string;
  dial: () => Promise<Socket | null>;
  /** Added to what the plugin sends, in place of any field of that name. */
  adds?: readonly [name: string, value: string];
}

/** Where the answer goes: an ordinary response, or the bare socket of an upgrade. */
export type Asker = { response: ServerResponse } | { socket: Socket; head: Buffer };

export async function forward(
  passage: Passage,
  request: IncomingMessage,
  asker: Asker,
  { host, path, dial, adds }: Errand,
): Promise<void> {
  if (!passage.lead()) return answer(request, asker, 429, "Too many connections.\n");
  let led = true;
  const rest = () => {
    if (led) passage.rest();
    led = false;
  };
  const outside = await dial();
  if (passage.ended) return;
  if (outside === null) {
    rest();
    return answer(request, asker, 502, `${host} cannot be reached.\n`);
  }
  const upgrade = "socket" in asker ? request.headers.upgrade : undefined;
  const fields: [string, string][] = [
    ["Host", host],
    ...travelling(request, adds === undefined ? ["host"] : ["host", adds[0].toLowerCase()]),
    ...(adds === undefined ? [] : [[...adds] as [string, string]]),
    ...(upgrade === undefined
      ? [["Connection", "close"] as [string, string]]
      : [["Connection", "Upgrade"] as [string, string], ["Upgrade", upgrade] as [string, string]]),
  ];
  if (request.headers["transfer-encoding"] !== undefined) fields.push(["Transfer-Encoding", "chunked"]);
  if (!passage.takeOut(headBytes(`${request.method} ${path}`, fields))) return;
  const sent = ask({
    createConnection: () => outside,
    method: request.method!,
    path,
    headers: fields.flat(),
    setHost: false,
    maxHeaderSize: passage.border.limits.head_bytes,
  });
  sent.on("error", () => {
    outside.destroy();
    rest();
    // A server may answer and leave before it was told everything.
    if ("response" in asker && asker.response.writableEnded) return;
    if ("response" in asker && asker.response.headersSent) passage.end();
    else answer(request, asker, 502, `${host} gave no answer that can be read.\n`);
  });
  sent.on("response", (answered) => give(passage, request, asker, answered, rest));
  sent.on("upgrade", (answered, socket, head) =>
    switchOver(passage, asker, answered, socket as Socket, head),
  );
  if ("response" in asker) {
    asker.response.once("close", () => {
      outside.destroy();
      rest();
    });
    pump(request, sent, passage.takeOut, passage.border);
  } else {
    sent.end();
  }
}

function give(
  passage: Passage,
  request: IncomingMessage,
  asker: Asker,
  answered: IncomingMessage,
  rest: () => void,
): void {
  const fields = travelling(answered);
  const response = "response" in asker ? asker.response : bare(request, asker.socket);
  if (response.destroyed || !passage.takeIn(headBytes(answered.statusMessage ?? "", fields))) return;
  try {
    response.writeHead(answered.statusCode!, answered.statusMessage, fields.flat());
  } catch {
    answered.destroy();
    passage.end();
    return;
  }
  // An answer that breaks off must not look like one that is complete.
  answered.on("error", () => {});
  answered.once("close", () => {
    if (!answered.complete) passage.end();
  });
  response.once("close", rest);
  pump(answered, response, passage.takeIn, passage.border);
}

function switchOver(
  passage: Passage,
  asker: Asker,
  answered: IncomingMessage,
  outside: Socket,
  head: Buffer,
): void {
  if ("response" in asker) {
    passage.end();
    return;
  }
  const fields = pairs(answered.rawHeaders);
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const first = `HTTP/1.1 101 ${answered.statusMessage}\r\n`;
  if (!passage.takeIn(headBytes(first, fields) + head.length) || !passage.takeOut(asker.head.length)) return;
  asker.socket.write(`${first}${lines}\r\n`, "latin1");
  if (head.length > 0) asker.socket.write(head);
  if (asker.head.length > 0) outside.write(asker.head);
  pump(outside, asker.socket, passage.takeIn, passage.border);
  pump(asker.socket, outside, passage.takeOut, passage.border);
  passage.follow(outside);
}

/** Says something of our own and closes. */
export function answer(request: IncomingMessage, asker: Asker, status: number, text: string): void {
  const response = "response" in asker ? asker.response : bare(request, asker.socket);
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "backplane-egress": "refused",
    connection: "close",
  });
  response.end(text);
}

function bare(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => socket.end());
  return response;
}
