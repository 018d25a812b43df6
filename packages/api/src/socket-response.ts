/** Error responses for connections that no route serves: written to the socket by hand, with the common envelope. */
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { ErrorAnswer } from "./error-envelope.ts";

/** Every response carries it, also the 101 of a WebSocket; `NosniffResponse` adds it to those that Node writes. */
export const NOSNIFF_LINE = "X-Content-Type-Options: nosniff";

export function writeErrorResponse(socket: Duplex, { envelope, status, retry_after_s }: ErrorAnswer): void {
  const body = JSON.stringify(envelope);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Refused"}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${envelope.error.request_id}`,
    NOSNIFF_LINE,
    "Connection: close",
    ...(status === 401 ? ['WWW-Authenticate: Bearer realm="backplane"'] : []),
    ...(retry_after_s === null ? [] : [`Retry-After: ${retry_after_s}`]),
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
}
