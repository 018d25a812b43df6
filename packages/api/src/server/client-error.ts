/** Responds to requests that Node's HTTP parser rejects. They never reach Fastify, but get the same error envelope. */
import type { Socket } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { ErrorResponse } from "../http/error-envelope.ts";
import { writeErrorResponse } from "../http/socket-response.ts";

export function respondToClientError(
  error: Error & { code?: string },
  socket: Socket,
  describe: (error: BackplaneError) => ErrorResponse,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  writeErrorResponse(socket, describe(toKnownError(error.code)));
}

function toKnownError(code: string | undefined): BackplaneError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new BackplaneError("request.too_large", "The headers of the request are larger than 16 kB.", {
      fix: "Send fewer or shorter headers.",
    });
  const [message, fix] =
    code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? ["The request did not arrive in time.", "Send the whole request without long pauses."]
      : ["The request is not valid HTTP.", "Use an HTTP/1.1 client."];
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "request", message }] },
    fix,
  });
}
