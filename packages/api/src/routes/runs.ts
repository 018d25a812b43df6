/**
 * Runs: turns of the loop, as a client starts and follows them. Without `wait` the answer comes as soon as the message
 * and the run are on disk (202); with it, or as a stream, the line is held until the run has ended.
 */
import { RISK_CONTEXTS, type Run } from "@backplane/contract";
import { RunSchema } from "@backplane/contract/schema";
import type { Caller, RunTicket } from "@backplane/kernel";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { openRun } from "../agent/run-stream.ts";
import type { SseItem } from "../event-streams.ts";
import { idempotencyKey, REPLAYED, requestDigest } from "../idempotent.ts";
import { type Answer, defineRoute, type Route } from "../route.ts";
import type { RouteDeps } from "./index.ts";
import { lastEventId } from "./invocations.ts";
import { EntryCursor, SessionId, sent, UserMessageBody, Workspace, WorkspaceQuery } from "./session-ref.ts";
import { IdParams, listOf, nameOf, PageQuery, splitPage } from "./shapes.ts";

const READ = { scope: "sessions:read", delegated: "runs:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "runs:write" } as const;
const DEFAULT_WAIT_S = 30;

const RunCreate = z
  .strictObject({
    session_id: SessionId.optional(),
    chain_id: nameOf(128).min(1).optional().describe("Instead of session_id; has to be its session's head."),
    workspace: Workspace.optional(),
    input: UserMessageBody,
    strategy: nameOf(128).min(1).optional(),
    context: z
      .enum(RISK_CONTEXTS)
      .optional()
      .describe("Whose tolerance of risk counts; default background. In headless nobody is asked."),
  })
  .refine(({ session_id, chain_id }) => (session_id === undefined) !== (chain_id === undefined), {
    message: "needs either session_id or chain_id",
  });
const RunQuery = WorkspaceQuery.extend({
  wait: z
    .union([z.literal(["", "true"]), z.coerce.number().min(0).max(60)], {
      error: "write true, or seconds from 0 to 60",
    })
    .optional()
    .describe("Seconds to hold the line, up to 60; `true` means 30."),
  stream: z.enum(["0", "1"]).optional().describe("1 answers a stream, as does Accept: text/event-stream."),
});
const STREAM =
  "Server-sent events: `event` is the kind, `data` the op `{op, session_id, event, entry_id?}`, `id` the entry's id where " +
  "the tape has it. First `run.started` with the run, then its messages, deltas, tool calls and approval requests, last " +
  "`run` with the ended run. A reader that comes back with Last-Event-ID misses and repeats nothing.";

/** What is kept for a repeat: a repeat sees the same run as it is now. */
interface Started {
  id: string;
  entry_id: number;
}

export function runRoutes(deps: RouteDeps): Route[] {
  const { kernel, streams, clock } = deps;
  const { runs } = kernel;
  return [
    defineRoute({
      method: "POST",
      path: "/v1/runs",
      operation_id: "startRun",
      summary: "Say something and follow what comes of it",
      description:
        "202 once the message is on disk; `?wait=` holds the line and answers 200 with the ended run, however it ended. " +
        `A message to a session in the middle of a turn joins that turn. As a stream: ${STREAM}`,
      tag: "Runs",
      auth: WRITE,
      query: RunQuery,
      body: RunCreate,
      idempotent: true,
      responses: {
        200: { description: "It has ended; or the stream.", schema: RunSchema },
        202: { description: "It runs.", schema: RunSchema },
      },
      async handler({ caller, query, body, request, reply }) {
        const wanted = bodyOf(query.workspace, body);
        const key = idempotencyKey(request);
        if (key === null) {
          const ticket = await runs.start(caller, wanted);
          const started = { id: ticket.run.id, entry_id: ticket.entry_id };
          return answer(caller, started, ticket, query, request, reply, {});
        }
        const digest = requestDigest(caller, request, wanted);
        const { ticket, ...started } = await runs.startOnce(caller, wanted, key, digest);
        return answer(caller, started, ticket, query, request, reply, ticket === null ? REPLAYED : {});
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs",
      operation_id: "listAllRuns",
      summary: "List runs, newest first",
      tag: "Runs",
      // A plugin finds those of a chain that it knows.
      auth: { scope: "sessions:read" },
      query: PageQuery.extend({
        session_id: SessionId.optional(),
        workspace: Workspace.optional().describe("Default: all of them."),
      }),
      responses: { 200: { description: "One page.", schema: listOf(RunSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await runs.list(caller, sent(filter), page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs/{id}",
      operation_id: "getRun",
      summary: "Read a run",
      tag: "Runs",
      auth: READ,
      params: IdParams,
      responses: { 200: { description: "The run.", schema: RunSchema } },
      handler: async ({ caller, params }) => ({ status: 200, json: await runs.get(caller, params.id) }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs/{id}/events",
      operation_id: "watchRun",
      summary: "Follow a run",
      description: STREAM,
      tag: "Runs",
      auth: READ,
      params: IdParams,
      query: z.strictObject({ after: EntryCursor.optional().describe("Like Last-Event-ID.") }),
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      handler({ caller, params, query, request, reply }) {
        const after = lastEventId(request, query.after);
        return stream(caller, params.id, after === 0 ? null : after, reply, after === 0);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/{id}:cancel",
      operation_id: "cancelRun",
      summary: "Cancel a run",
      description: "Answers the ended run; 409 run.ended when it has ended already.",
      tag: "Runs",
      auth: WRITE,
      params: IdParams,
      responses: { 200: { description: "The run, ended.", schema: RunSchema } },
      handler: async ({ caller, params }) => ({ status: 200, json: await runs.cancel(caller, params.id) }),
    }),
  ];

  async function answer(
    caller: Caller,
    started: Started,
    ticket: RunTicket | null,
    query: z.output<typeof RunQuery>,
    request: FastifyRequest,
    reply: FastifyReply,
    headers: Record<string, string>,
  ): Promise<Answer> {
    if (wantsStream(request, query.stream))
      return stream(caller, started.id, started.entry_id - 1, reply, true);
    const wait_ms = waitMs(query.wait);
    const run =
      (wait_ms === 0 ? ticket?.run : await endedWithin(caller, started, ticket, wait_ms)) ??
      (await runs.get(caller, started.id));
    return { status: run.status === "running" ? 202 : 200, json: run, headers };
  }

  async function stream(
    caller: Caller,
    id: string,
    after: number | null,
    reply: FastifyReply,
    announce: boolean,
  ): Promise<Answer> {
    const opened = await openRun(deps, caller, id, after);
    const run = await runs.get(caller, id);
    try {
      return await streams.stream(reply, async function* (stop): AsyncGenerator<SseItem> {
        if (announce) yield { event: "run.started", data: JSON.stringify(run) };
        yield* opened.items(stop);
      });
    } finally {
      opened.close();
    }
  }

  /** Null when the time is over first. */
  async function endedWithin(
    caller: Caller,
    { id, entry_id }: Started,
    ticket: RunTicket | null,
    wait_ms: number,
  ): Promise<Run | null> {
    const stop = new AbortController();
    const over = new Promise<null>((resolve) => {
      stop.signal.addEventListener("abort", () => resolve(null));
    });
    const timer = clock.after(wait_ms, () => stop.abort());
    try {
      return await Promise.race([over, ticket?.settled ?? ended(caller, id, entry_id, stop.signal)]);
    } finally {
      timer.stop();
      stop.abort();
    }
  }

  /** For a run that was started by another request. */
  async function ended(caller: Caller, id: string, entry_id: number, stop: AbortSignal): Promise<Run | null> {
    const opened = await openRun(deps, caller, id, entry_id);
    try {
      for await (const item of opened.items(stop))
        if (item.event === "run") return JSON.parse(item.data) as Run;
      return null;
    } finally {
      opened.close();
    }
  }
}

type Start = Parameters<RouteDeps["kernel"]["runs"]["start"]>[1];

function bodyOf(
  workspace: string | undefined,
  { chain_id, session_id, input, ...rest }: z.output<typeof RunCreate>,
): Start {
  const message = sent(input);
  const { strategy, context } = rest;
  const how = sent({ strategy, context });
  if (chain_id !== undefined) return { chain_id, input: message, ...how };
  const where = sent({ workspace: rest.workspace ?? workspace });
  return { session_id: session_id!, ...where, input: message, ...how };
}

function wantsStream({ headers }: FastifyRequest, stream: "0" | "1" | undefined): boolean {
  if (stream !== undefined) return stream === "1";
  return /\btext\/event-stream\b/.test(headers.accept ?? "");
}

function waitMs(wait: number | string | undefined): number {
  if (wait === undefined) return 0;
  return (typeof wait === "number" ? wait : DEFAULT_WAIT_S) * 1000;
}
