/** What is not even HTTP never reaches a route; it still gets the envelope, written by hand. */
import type { Socket } from "node:net";
import { BackplaneError } from "@backplane/contract";
import type { ErrorAnswer } from "./error-envelope.ts";
import { writeErrorResponse } from "./socket-response.ts";

export function answerClientError(
  error: Error & { code?: string },
  socket: Socket,
  describe: (error: BackplaneError) => ErrorAnswer,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  writeErrorResponse(socket, describe(explain(error.code)));
}

function explain(code: string | undefined): BackplaneError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new BackplaneError("request.too_large", "The request's headers are larger than 16 kB.", {
      fix: "Send fewer or shorter headers.",
    });
  const message =
    code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? "The request did not arrive in time."
      : "The request is not valid HTTP.";
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "request", message }] },
    fix: "Use an HTTP/1.1 client.",
  });
}
