/** Error responses written directly to a socket, for requests that never reach Fastify. */
import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { ErrorResponse } from "./error-envelope.ts";

/**
 * Every response has this header, including the 101 of a WebSocket; `NosniffResponse` adds it to those that Node
 * writes.
 */
export const NOSNIFF_LINE = "X-Content-Type-Options: nosniff";

export function writeErrorResponse(socket: Duplex, { envelope, status, retry_after_s }: ErrorResponse): void {
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
