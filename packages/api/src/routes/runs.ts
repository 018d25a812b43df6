/**
 * Runs: turns of the agent loop and requests to harnesses. Without `wait`, POST responds 202 as soon as the message and
 * the run are on disk. With `wait`, it responds when the run has ended or the wait is over. A stream ends with the run.
 */
import { definedFields, HARNESS_MODES, RISK_CONTEXTS, type Run } from "@backplane/contract";
import {
  ExecutionSchema,
  ExportIdSchema,
  HarnessPolicySchema,
  PackageIdSchema,
  RunSchema,
} from "@backplane/contract/schema";
import type { Caller, RunTicket } from "@backplane/ports";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { prefersEventStream } from "../http/prefers-event-stream.ts";
import { defineRoute, type Route, type RouteResponse } from "../http/route.ts";
import { REPLAYED_HEADERS, readIdempotencyKey, requestDigest } from "../requests/idempotency.ts";
import {
  EntryCursor,
  IdParams,
  listSchema,
  nameSchema,
  PageQuery,
  SessionId,
  splitPage,
  UserMessageBody,
  WaitSeconds,
  Workspace,
  WorkspaceQuery,
  waitMs,
} from "../requests/parameters.ts";
import { openRunStream } from "../session-streams/run-stream.ts";
import type { SseItem } from "../sse/event-streams.ts";
import { readResumeCursor } from "../sse/resume-cursor.ts";
import type { RouteDeps } from "./route-deps.ts";

const READ = { scope: "sessions:read", delegated: "runs:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "runs:write" } as const;

const HarnessBody = z
  .strictObject({
    binding_id: nameSchema(64).min(1).optional(),
    package_id: PackageIdSchema.optional(),
    export_id: ExportIdSchema.optional(),
    mode: z.enum(HARNESS_MODES).optional().describe("Default start."),
    execution_id: nameSchema(128)
      .min(1)
      .optional()
      .describe("With mode `resume`: the execution that continues at its last checkpoint."),
    policy: HarnessPolicySchema.optional().describe(
      "Limits of a new execution. A resumed one keeps its own.",
    ),
    timeout_ms: z.int().min(1).max(86_400_000).optional(),
  })
  .refine(({ binding_id, export_id }) => binding_id !== undefined || export_id !== undefined, {
    message: "specify a binding_id or an export_id",
    path: ["export_id"],
  })
  .refine(({ mode = "start", execution_id }) => (mode === "resume") === (execution_id !== undefined), {
    message: "is required with mode `resume` and not allowed with any other mode",
    path: ["execution_id"],
  })
  .refine(({ mode, policy }) => mode !== "resume" || policy === undefined, {
    message: "a resumed execution keeps its policy",
    path: ["policy"],
  });

const RunCreate = z
  .strictObject({
    session_id: SessionId.optional(),
    chain_id: nameSchema(128)
      .min(1)
      .optional()
      .describe("Instead of session_id; must be the head of its session."),
    workspace: Workspace.optional(),
    input: UserMessageBody,
    strategy: nameSchema(128).min(1).optional(),
    harness: HarnessBody.optional().describe("Executes a harness instead of a turn of the agent loop."),
    context: z
      .enum(RISK_CONTEXTS)
      .optional()
      .describe(
        "Which risk tolerance applies; default background. In the headless context no approval is requested.",
      ),
  })
  .refine(({ session_id, chain_id }) => (session_id === undefined) !== (chain_id === undefined), {
    message: "must have either session_id or chain_id",
  });
const RunQuery = WorkspaceQuery.extend({
  wait: WaitSeconds,
  stream: z
    .enum(["0", "1"])
    .optional()
    .describe("1 responds with a stream, as does an Accept header that prefers text/event-stream to JSON."),
});
const STREAM =
  "Server-sent events: `event` is the kind, `data` the op `{op, session_id, event, entry_id?}`, and `id` the entry id of " +
  "events that are on the tape. First comes `run.started` with the run, then its messages, deltas, tool calls and approval " +
  "requests, and last `run` with the ended run. A client that reconnects with Last-Event-ID neither misses nor repeats an " +
  "entry; deltas that were sent meanwhile are not replayed.";

/** Stored for repeats with the same idempotency key, which get the current state of the same run. */
interface StartedRun {
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
      summary: "Start a run with a message",
      description:
        "Responds 202 once the message is on disk. With `?wait=`, responds 200 with the ended run, even if it failed, or 202 " +
        "if it is still running when the wait is over. " +
        "A message to a session whose turn is running joins that turn. With `harness`, the run executes a bound harness; " +
        "the harness itself starts runs here with its delegated token, each with an Idempotency-Key. " +
        `As a stream: ${STREAM}`,
      tag: "Runs",
      auth: WRITE,
      query: RunQuery,
      body: RunCreate,
      idempotent: true,
      responses: {
        200: { description: "The ended run, or the stream.", schema: RunSchema },
        202: { description: "The run is in progress.", schema: RunSchema },
      },
      async handler({ caller, query, body, request, reply }) {
        const start_request = buildStartRequest(query.workspace, body);
        const key = readIdempotencyKey(request);
        if (key === null) {
          const ticket = await runs.start(caller, start_request);
          const started = { id: ticket.run.id, entry_id: ticket.entry_id };
          return respond(caller, started, ticket, query, request, reply, {});
        }
        const digest = requestDigest(caller, request, start_request);
        const { ticket, ...started } = await runs.startOnce(caller, start_request, key, digest);
        return respond(
          caller,
          started,
          ticket,
          query,
          request,
          reply,
          ticket === null ? REPLAYED_HEADERS : {},
        );
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/runs",
      operation_id: "listAllRuns",
      summary: "List runs, newest first",
      tag: "Runs",
      // A delegated token lists the runs of one chain with listRuns.
      auth: { scope: "sessions:read" },
      query: PageQuery.extend({
        session_id: SessionId.optional(),
        workspace: Workspace.optional().describe("Default: all workspaces."),
      }),
      responses: { 200: { description: "A page.", schema: listSchema(RunSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await runs.list(caller, definedFields(filter), page) };
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
      path: "/v1/executions/{id}",
      operation_id: "getExecution",
      summary: "Read a harness execution",
      description:
        "Shows its status, its last checkpoint, and how much of its limits its runs have used. `harness.execution_id` of " +
        "a run identifies it. A delegated token sees only its own execution.",
      tag: "Runs",
      auth: READ,
      params: IdParams,
      responses: { 200: { description: "The execution.", schema: ExecutionSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await runs.getExecution(caller, params.id),
      }),
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
      query: z.strictObject({ after: EntryCursor.optional().describe("Same as Last-Event-ID.") }),
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      handler({ caller, params, query, request, reply }) {
        const after = readResumeCursor(request, query.after);
        return streamRun(caller, params.id, after === 0 ? null : after, reply, after === 0);
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/runs/{id}:cancel",
      operation_id: "cancelRun",
      summary: "Cancel a run",
      description: "Responds with the ended run, or with 409 run.ended if it has already ended.",
      tag: "Runs",
      auth: WRITE,
      params: IdParams,
      responses: { 200: { description: "The ended run.", schema: RunSchema } },
      handler: async ({ caller, params }) => ({ status: 200, json: await runs.cancel(caller, params.id) }),
    }),
  ];

  async function respond(
    caller: Caller,
    started: StartedRun,
    ticket: RunTicket | null,
    query: z.output<typeof RunQuery>,
    request: FastifyRequest,
    reply: FastifyReply,
    headers: Record<string, string>,
  ): Promise<RouteResponse> {
    if (wantsStream(request, query.stream))
      return streamRun(caller, started.id, started.entry_id - 1, reply, true);
    const wait_ms = waitMs(query.wait);
    const run =
      (wait_ms === 0 ? ticket?.run : await waitForEnd(caller, started, ticket, wait_ms)) ??
      (await runs.get(caller, started.id));
    return { status: run.status === "running" ? 202 : 200, json: run, headers };
  }

  async function streamRun(
    caller: Caller,
    id: string,
    after: number | null,
    reply: FastifyReply,
    announce: boolean,
  ): Promise<RouteResponse> {
    const run_stream = await openRunStream(deps, caller, id, after);
    try {
      const run = await runs.get(caller, id);
      return await streams.stream(reply, async function* (stop): AsyncGenerator<SseItem> {
        if (announce) yield { event: "run.started", data: JSON.stringify(run) };
        yield* run_stream.items(stop);
      });
    } finally {
      run_stream.close();
    }
  }

  /** Null when the time runs out first. */
  async function waitForEnd(
    caller: Caller,
    { id, entry_id }: StartedRun,
    ticket: RunTicket | null,
    wait_ms: number,
  ): Promise<Run | null> {
    const stop = new AbortController();
    const timeout = new Promise<null>((resolve) => {
      stop.signal.addEventListener("abort", () => resolve(null));
    });
    const timer = clock.after(wait_ms, () => stop.abort());
    try {
      return await Promise.race([
        timeout,
        ticket?.settled ?? waitForEndOfStream(caller, id, entry_id, stop.signal),
      ]);
    } finally {
      timer.stop();
      stop.abort();
    }
  }

  /** For a run that another request has started. */
  async function waitForEndOfStream(
    caller: Caller,
    id: string,
    entry_id: number,
    stop: AbortSignal,
  ): Promise<Run | null> {
    const run_stream = await openRunStream(deps, caller, id, entry_id);
    try {
      for await (const item of run_stream.items(stop))
        if (item.event === "run") return JSON.parse(item.data) as Run;
      return null;
    } finally {
      run_stream.close();
    }
  }
}

type StartRequest = Parameters<RouteDeps["kernel"]["runs"]["start"]>[1];

function buildStartRequest(
  workspace: string | undefined,
  { chain_id, session_id, input, ...rest }: z.output<typeof RunCreate>,
): StartRequest {
  const message = definedFields(input);
  const { strategy, context, harness } = rest;
  const options = { ...definedFields({ strategy, context }), ...toHarnessOption(harness) };
  if (chain_id !== undefined) return { chain_id, input: message, ...options };
  const where = definedFields({ workspace: rest.workspace ?? workspace });
  return { session_id: session_id!, ...where, input: message, ...options };
}

function toHarnessOption(harness: z.output<typeof HarnessBody> | undefined): Pick<StartRequest, "harness"> {
  if (harness === undefined) return {};
  const { mode: _mode, policy, ...target } = harness;
  return {
    harness: {
      ...definedFields(target),
      ...(policy === undefined ? {} : { policy: definedFields(policy) }),
    },
  };
}

function wantsStream({ headers }: FastifyRequest, stream: "0" | "1" | undefined): boolean {
  if (stream !== undefined) return stream === "1";
  return prefersEventStream(headers.accept);
}
