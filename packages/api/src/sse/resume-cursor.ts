import { BackplaneError } from "@backplane/contract";
import type { FastifyRequest } from "fastify";

/** The cursor to resume after: the Last-Event-ID header, otherwise the query parameter, otherwise the beginning. */
export function readResumeCursor(request: FastifyRequest, after: number | undefined): number {
  const header = request.headers["last-event-id"];
  if (header === undefined || header === "") return after ?? 0;
  const id = typeof header === "string" && /^\d{1,16}$/.test(header) ? Number(header) : Number.NaN;
  if (Number.isSafeInteger(id)) return id;
  const message = "Last-Event-ID must be an event id of this stream.";
  throw new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "header.last-event-id", message }] },
  });
}
