/** Semantic events: facts of the caller's scope, by cursor. */
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import type { SseItem } from "../sse/event-streams.ts";
import { lastEventId } from "../sse/last-event-id.ts";
import type { RouteDeps } from "./route-deps.ts";

export function eventRoutes({ kernel, streams }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/events",
      operation_id: "watchEvents",
      summary: "Follow what happens",
      description:
        "Server-sent events: `event` is the type, `id` the seq, `data` a SemanticEvent. Starts at the beginning, or " +
        "after Last-Event-ID or `after`.",
      tag: "Events",
      auth: { scope: "audit:read" },
      query: z.strictObject({
        after: z.coerce.number().int().min(0).optional().describe("Like Last-Event-ID."),
      }),
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      handler({ caller, query, request, reply }) {
        const after = lastEventId(request, query.after);
        return streams.stream(reply, (stop) => facts(caller, after, stop));
      },
    }),
  ];

  async function* facts(caller: Caller, after: number, stop: AbortSignal): AsyncGenerator<SseItem> {
    for await (const event of kernel.events.watch(caller, after, stop))
      yield { id: event.seq, event: event.type, data: JSON.stringify(event) };
  }
}
