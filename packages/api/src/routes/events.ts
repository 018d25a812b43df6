/** Semantic events of the caller's scope, by cursor. */
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { SseItem } from "../sse/event-streams.ts";
import { readResumeCursor } from "../sse/resume-cursor.ts";
import type { RouteDeps } from "./route-deps.ts";

export function eventRoutes({ kernel, streams }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/events",
      operation_id: "watchEvents",
      summary: "Follow semantic events",
      description:
        "Server-sent events: `event` is the type, `id` the seq and `data` a SemanticEvent. Starts with the oldest stored " +
        "event, or after Last-Event-ID or `after`. With `after=latest` only new events are sent; the stream then begins " +
        "with an item `position`, whose `id` is the seq to resume after if the connection is lost before the first event.",
      tag: "Events",
      auth: { scope: "audit:read" },
      query: z.strictObject({
        after: z
          .union([z.literal("latest"), z.coerce.number().int().min(0)])
          .optional()
          .describe("Same as Last-Event-ID, or `latest`."),
      }),
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      handler({ caller, query, request, reply }) {
        const { after } = query;
        const resumes = (request.headers["last-event-id"] ?? "") !== "";
        if (after === "latest" && !resumes)
          return streams.stream(reply, (stop) => sseItemsFromNow(caller, stop));
        const seq = readResumeCursor(request, after === "latest" ? undefined : after);
        return streams.stream(reply, (stop) => sseItems(caller, seq, stop));
      },
    }),
  ];

  async function* sseItemsFromNow(caller: Caller, stop: AbortSignal): AsyncGenerator<SseItem> {
    const seq = await kernel.events.getPosition();
    yield { id: seq, event: "position", data: JSON.stringify({ seq }) };
    yield* sseItems(caller, seq, stop);
  }

  async function* sseItems(caller: Caller, after: number, stop: AbortSignal): AsyncGenerator<SseItem> {
    for await (const event of kernel.events.watch(caller, after, stop))
      yield { id: event.seq, event: event.type, data: JSON.stringify(event) };
  }
}
