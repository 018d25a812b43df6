/**
 * The one door over HTTP. Without `wait` the answer comes as soon as the row is on disk (202). With `wait` the
 * line is held until the call has ended: 200 with the record, however it ended, for the request itself worked.
 * A call that the door refuses is recorded by the kernel, which throws the refusal with details.invocation_id.
 */
import { BackplaneError, INVOCATION_STATUSES, type Invocation, isTerminal } from "@backplane/contract";
import { ExportIdSchema, InvocationSchema, InvokeBodySchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/kernel";
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { idempotencyKey, REPLAYED, requestDigest } from "../idempotent.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import type { SseItem } from "../event-streams.ts";
import type { RouteDeps } from "./index.ts";
import { IdParams, listOf, nameOf, PageQuery, splitPage } from "./shapes.ts";
import { createWait } from "./wait.ts";

/** The body came from a JSON parser, so `input` need not be walked again to show that it is JSON. */
const InvokeBody = (
  InvokeBodySchema as unknown as { safeExtend(shape: Record<string, z.ZodType>): unknown }
).safeExtend({
  input: z.unknown().optional(),
  binding_id: nameOf(64).optional(),
  session_id: nameOf(256).min(1).optional(),
  chain_id: nameOf(128).min(1).optional(),
  run_id: nameOf(128).min(1).optional(),
  trace_id: nameOf(128).min(1).optional(),
}) as typeof InvokeBodySchema;

const DEFAULT_WAIT_S = 30;
const InvokeQuery = z.strictObject({
  wait: z
    .union([z.literal(["", "true"]), z.coerce.number().min(0).max(60)], {
      error: "write true, or seconds from 0 to 60",
    })
    .optional()
    .describe("Seconds to hold the line, up to 60; `true` means 30."),
});

const ListQuery = PageQuery.extend({
  status: z.enum(INVOCATION_STATUSES).optional(),
  export_id: ExportIdSchema.optional(),
  session_id: nameOf(256).optional(),
  binding_id: nameOf(64).optional(),
});

const ArtifactParams = IdParams.extend({ sha256: z.string().regex(/^[0-9a-f]{64}$/) });

const AfterQuery = z.strictObject({
  after: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .describe("Like Last-Event-ID, for clients that cannot set it."),
});

export function invocationRoutes(deps: RouteDeps): Route[] {
  const { kernel, streams, metrics } = deps;
  const wait = createWait(deps);
  return [
    defineRoute({
      method: "POST",
      path: "/v1/invocations",
      operation_id: "invoke",
      summary: "Invoke a bound export",
      description:
        "202 with the record once it is on disk, also while it waits for an approval. `?wait=` holds the line and " +
        "answers 200 with the ended record; look at its status and error.code. When the time is over first, it is 202.",
      tag: "Invocations",
      auth: { scope: "invocations:write", delegated: "tools:invoke" },
      query: InvokeQuery,
      body: InvokeBody,
      idempotent: true,
      responses: {
        200: { description: "It has ended.", schema: InvocationSchema },
        202: { description: "It runs, or waits for an approval.", schema: InvocationSchema },
      },
      async handler({ caller, query, body, request }) {
        const wait_ms = waitMs(query.wait);
        const key = idempotencyKey(request);
        if (key !== null) return invokeOnce(caller, key, body, wait_ms, request);
        const ticket = await kernel.invocations.invoke(caller, body);
        void ticket.settled.then(count);
        return answer(await wait.ticket(caller, ticket, wait_ms));
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
      responses: { 200: { description: "One page.", schema: listOf(InvocationSchema) } },
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
      // The kernel shows a delegated token the calls that it started and no others.
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.invocations.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/invocations/{id}/artifacts/{sha256}",
      operation_id: "getArtifact",
      summary: "Read a file that an invocation's result refers to",
      description:
        'A result refers to it as `{"transport": "artifact", "path", "bytes", "sha256"}`. It comes as it was written, ' +
        "never as something that a browser would show.",
      tag: "Invocations",
      auth: { scope: "invocations:read", delegated: "any" },
      params: ArtifactParams,
      responses: { 200: { description: "Its bytes.", type: "application/octet-stream" } },
      async handler({ caller, params }) {
        const { bytes, content } = await kernel.invocations.artifact(caller, params.id, params.sha256);
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
      description: "202 when the cancel is under way; 409 invocation.settled when it has ended already.",
      tag: "Invocations",
      auth: { scope: "invocations:write" },
      params: IdParams,
      responses: { 202: { description: "The cancel is under way.", schema: InvocationSchema } },
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
        "Server-sent events: each `data` is `{seq, at, event}` and its `id` the seq. The last one is `event: settled` " +
        "with the ended record. A reader that comes back with Last-Event-ID misses and repeats nothing.",
      tag: "Invocations",
      auth: { scope: "invocations:read" },
      params: IdParams,
      query: AfterQuery,
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      async handler({ caller, params, query, request, reply }) {
        const after = lastEventId(request, query.after);
        // Refuse while there still is a status to refuse with.
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

  /** A repeat sees the call that the key opened, as it is now. */
  async function invokeOnce(
    caller: Caller,
    key: string,
    body: z.output<typeof InvokeBody>,
    wait_ms: number,
    request: FastifyRequest,
  ): Promise<Answer> {
    const digest = requestDigest(caller, request, body);
    const { id, ticket } = await kernel.invocations.invokeOnce(caller, body, key, digest);
    if (ticket === null) return { ...answer(await wait.row(caller, id, wait_ms)), headers: REPLAYED };
    void ticket.settled.then(count);
    return answer(await wait.ticket(caller, ticket, wait_ms));
  }

  function count(ended: Invocation): void {
    metrics.invocationEnded(ended.status);
  }
}

function answer(record: Invocation): { status: number; json: Invocation } {
  return { status: isTerminal(record.status) ? 200 : 202, json: record };
}

function waitMs(wait: number | string | undefined): number {
  if (wait === undefined) return 0;
  return (typeof wait === "number" ? wait : DEFAULT_WAIT_S) * 1000;
}

export function lastEventId(request: FastifyRequest, after: number | undefined): number {
  const header = request.headers["last-event-id"];
  if (header === undefined || header === "") return after ?? 0;
  const id = typeof header === "string" && /^\d{1,16}$/.test(header) ? Number(header) : Number.NaN;
  if (Number.isSafeInteger(id)) return id;
  const message = "Last-Event-ID must be the id of an event of this stream.";
  throw new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "header.last-event-id", message }] },
  });
}
