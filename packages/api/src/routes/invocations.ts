/**
 * Invocations over HTTP. Without `wait`, POST responds 202 as soon as the row is on disk. With `wait`, it responds 200
 * with the record once the invocation has ended, even when the invocation failed, because the request itself
 * succeeded; or 202 if the wait is over first. If the kernel has recorded a refused invocation, the error contains its
 * id in details.invocation_id.
 */
import { FRAME_LIMITS, INVOCATION_STATUSES, type Invocation, isTerminal } from "@backplane/contract";
import {
  ExportIdSchema,
  FrameRecordingSchema,
  InvocationSchema,
  InvokeBodySchema,
  TraceSpanSchema,
} from "@backplane/contract/schema";
import type { Caller, Ticket } from "@backplane/ports";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { defineRoute, type Route, type RouteResponse } from "../http/route.ts";
import { REPLAYED_HEADERS, readIdempotencyKey, requestDigest } from "../requests/idempotency.ts";
import {
  IdParams,
  listSchema,
  nameSchema,
  PageQuery,
  splitPage,
  WaitSeconds,
  waitMs,
} from "../requests/parameters.ts";
import type { SseItem } from "../sse/event-streams.ts";
import { readResumeCursor } from "../sse/resume-cursor.ts";
import type { RouteDeps } from "./route-deps.ts";

/**
 * `input` is not validated as JSON a second time: it came from the JSON parser. Walking it again would cost each call
 * time in proportion to its size (benchmark http.invoke.cpu).
 */
const InvokeBody = (
  InvokeBodySchema as unknown as { safeExtend(shape: Record<string, z.ZodType>): unknown }
).safeExtend({
  input: z.unknown().optional(),
  binding_id: nameSchema(64).optional(),
  session_id: nameSchema(256).min(1).optional(),
  chain_id: nameSchema(128).min(1).optional(),
  run_id: nameSchema(128).min(1).optional(),
  trace_id: nameSchema(128).min(1).optional(),
}) as typeof InvokeBodySchema;

const InvokeQuery = z.strictObject({ wait: WaitSeconds });

const STATUS_NAMES = INVOCATION_STATUSES.join(", ");

const StatusList = z
  .string()
  // Duplicates are removed, because the store prepares one statement for each number of statuses.
  .transform((text) => [...new Set(text.split(","))])
  .pipe(
    z.array(
      z.enum(INVOCATION_STATUSES, {
        error: ({ input }) => `${JSON.stringify(input)} is not a status; use one or more of ${STATUS_NAMES}`,
      }),
    ),
  )
  .describe(`One status or several, separated by commas: ${STATUS_NAMES}.`);

const ListQuery = PageQuery.extend({
  status: StatusList.optional(),
  export_id: ExportIdSchema.optional(),
  session_id: nameSchema(256).optional(),
  binding_id: nameSchema(64).optional(),
});

const TraceQuery = PageQuery.extend({
  limit: z.coerce.number().int().min(1).max(2_000).default(500).describe("Rows per page."),
});

const ArtifactParams = IdParams.extend({ sha256: z.string().regex(/^[0-9a-f]{64}$/) });

const AfterQuery = z.strictObject({
  after: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe("Same as Last-Event-ID, for clients that cannot set that header."),
});

export function invocationRoutes(deps: RouteDeps): Route[] {
  const { kernel, streams } = deps;
  const waiter = createInvocationWaiter(deps);
  return [
    defineRoute({
      method: "POST",
      path: "/v1/invocations",
      operation_id: "invoke",
      summary: "Invoke a bound export",
      description:
        "Responds 202 with the record once it is on disk, even while the invocation awaits approval. With `?wait=`, " +
        "responds 200 with the final record (check its status and error.code), or 202 if the time runs out first.",
      tag: "Invocations",
      auth: { scope: "invocations:write", delegated: "tools:invoke" },
      query: InvokeQuery,
      body: InvokeBody,
      idempotent: true,
      responses: {
        200: { description: "The invocation has ended.", schema: InvocationSchema },
        202: { description: "The invocation is running or awaiting approval.", schema: InvocationSchema },
      },
      async handler({ caller, query, body, request }) {
        const wait_ms = waitMs(query.wait);
        const key = readIdempotencyKey(request);
        if (key !== null) return invokeOnce(caller, key, body, wait_ms, request);
        const ticket = await kernel.invocations.invoke(caller, body);
        return respond(await waiter.forTicket(caller, ticket, wait_ms));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations",
      operation_id: "listInvocations",
      summary: "List invocations, newest first",
      tag: "Invocations",
      auth: { scope: "invocations:read" },
      query: ListQuery,
      responses: { 200: { description: "A page.", schema: listSchema(InvocationSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await kernel.invocations.list(caller, filter, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations/{id}",
      operation_id: "getInvocation",
      summary: "Read an invocation",
      tag: "Invocations",
      auth: { scope: "invocations:read", delegated: "any" },
      params: IdParams,
      responses: { 200: { description: "The record.", schema: InvocationSchema } },
      // The kernel shows a delegated token only the invocations that it started.
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.invocations.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/traces/{id}",
      operation_id: "listTrace",
      summary: "List the calls of a trace, oldest first",
      description:
        "A run, its sub-agents and its calls share a trace, and so do a call and the calls that it makes. A call that " +
        "shares its trace with no other call is not listed.",
      tag: "Invocations",
      auth: { scope: "invocations:read" },
      params: IdParams,
      query: TraceQuery,
      responses: { 200: { description: "A page.", schema: listSchema(TraceSpanSchema) } },
      async handler({ caller, params, query }) {
        const { page } = splitPage(query);
        return { status: 200, json: await kernel.invocations.listTrace(caller, params.id, page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations/{id}/frames",
      operation_id: "listFrames",
      summary: "List the recorded frames of an invocation",
      description:
        "Frames are recorded only while an operator records them with `:record-frames` of the binding. They are kept in " +
        "the memory of the gateway that ran the call, for at most an hour after the recording.",
      tag: "Invocations",
      auth: { scope: "invocations:read" },
      params: IdParams,
      responses: { 200: { description: "The frames.", schema: FrameRecordingSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.frames.list(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/plugin-bindings/{id}:record-frames",
      operation_id: "recordFrames",
      summary: "Record the frames of a binding's plugin processes",
      description:
        "Replaces the processes of the binding after their calls in flight, because a process is observed from its start. " +
        "The secrets of a call are removed from its frames. The recording is an entry of the audit log.",
      tag: "Invocations",
      auth: { scope: "bindings:write" },
      params: IdParams,
      body: z.strictObject({
        seconds: z.int().min(0).max(FRAME_LIMITS.max_seconds).default(600).describe("0 ends the recording."),
      }),
      responses: {
        200: {
          description: "The state of the recording.",
          schema: FrameRecordingSchema.omit({ items: true }),
        },
      },
      handler: async ({ caller, params, body }) => ({
        status: 200,
        json: await kernel.frames.record(caller, params.id, body.seconds),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations/{id}/artifacts/{sha256}",
      operation_id: "getArtifact",
      summary: "Download a file that an invocation's result refers to",
      description:
        'A result refers to a file as `{"transport": "artifact", "path", "bytes", "sha256"}`. The file is sent as an ' +
        "attachment, so that a browser never renders it.",
      tag: "Invocations",
      auth: { scope: "invocations:read", delegated: "any" },
      params: ArtifactParams,
      responses: { 200: { description: "The bytes of the file.", type: "application/octet-stream" } },
      async handler({ caller, params }) {
        const { bytes, content } = await kernel.invocations.openArtifact(caller, params.id, params.sha256);
        const headers = {
          "content-type": "application/octet-stream",
          "content-length": String(bytes),
          "content-disposition": `attachment; filename="${params.sha256}"`,
          "x-content-type-options": "nosniff",
          "cache-control": "private, no-store",
        };
        return { status: 200, content, headers };
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/invocations/{id}:cancel",
      operation_id: "cancelInvocation",
      summary: "Cancel an invocation",
      description:
        "Responds 202 when cancellation has started, or 409 invocation.settled if the invocation has already ended.",
      tag: "Invocations",
      auth: { scope: "invocations:write" },
      params: IdParams,
      responses: { 202: { description: "Cancellation has started.", schema: InvocationSchema } },
      handler: async ({ caller, params }) => ({
        status: 202,
        json: await kernel.invocations.cancel(caller, params.id),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations/{id}/events",
      operation_id: "watchInvocation",
      summary: "Follow an invocation",
      description:
        "Server-sent events: each `data` is `{seq, at, event}` and its `id` is the seq. The last one is `event: settled` " +
        "with the final record. A client that reconnects with Last-Event-ID neither misses nor repeats an event.",
      tag: "Invocations",
      auth: { scope: "invocations:read" },
      params: IdParams,
      query: AfterQuery,
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      async handler({ caller, params, query, request, reply }) {
        const after = readResumeCursor(request, query.after);
        // An unknown id must fail before the stream's headers are sent.
        await kernel.invocations.get(caller, params.id);
        return streams.stream(reply, (stop) => items(caller, params.id, after, stop));
      },
    }),
  ];

  async function* items(
    caller: Caller,
    id: string,
    after: number,
    stop: AbortSignal,
  ): AsyncGenerator<SseItem> {
    for await (const item of kernel.invocations.watch(caller, id, after, stop)) {
      if ("settled" in item) yield { event: "settled", data: JSON.stringify(item.settled) };
      else yield { id: item.seq, data: JSON.stringify(item) };
    }
  }

  /** A repeated request gets the current record of the invocation that its key started. */
  async function invokeOnce(
    caller: Caller,
    key: string,
    body: z.output<typeof InvokeBody>,
    wait_ms: number,
    request: FastifyRequest,
  ): Promise<RouteResponse> {
    const digest = requestDigest(caller, request, body);
    const { id, ticket } = await kernel.invocations.invokeOnce(caller, body, key, digest);
    if (ticket === null) {
      const record = await waiter.forId(caller, id, wait_ms);
      return { ...respond(record), headers: REPLAYED_HEADERS };
    }
    return respond(await waiter.forTicket(caller, ticket, wait_ms));
  }
}

function respond(record: Invocation): { status: number; json: Invocation } {
  return { status: isTerminal(record.status) ? 200 : 202, json: record };
}

/** The methods resolve with the final record, or with the current one when the time runs out. */
function createInvocationWaiter({ kernel, clock }: Pick<RouteDeps, "kernel" | "clock">) {
  return {
    /** For an invocation that this request has started. */
    async forTicket(caller: Caller, ticket: Ticket, wait_ms: number): Promise<Invocation> {
      if (wait_ms === 0) return ticket.invocation;
      const ended = await waitForEnd(ticket.settled, wait_ms);
      return ended ?? kernel.invocations.get(caller, ticket.id);
    },
    /** For any invocation. */
    async forId(caller: Caller, id: string, wait_ms: number): Promise<Invocation> {
      const current = await kernel.invocations.get(caller, id);
      if (wait_ms === 0 || isTerminal(current.status)) return current;
      const stop = new AbortController();
      const timer = clock.after(wait_ms, () => stop.abort());
      try {
        for await (const item of kernel.invocations.watch(caller, id, Number.MAX_SAFE_INTEGER, stop.signal))
          if ("settled" in item) return item.settled;
      } finally {
        timer.stop();
        stop.abort();
      }
      return kernel.invocations.get(caller, id);
    },
  };

  function waitForEnd(settled: Promise<Invocation>, wait_ms: number): Promise<Invocation | null> {
    return new Promise((resolve) => {
      const timer = clock.after(wait_ms, () => resolve(null));
      void settled.then((ended) => {
        timer.stop();
        resolve(ended);
      });
    });
  }
}
