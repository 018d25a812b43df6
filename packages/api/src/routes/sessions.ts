/** Sessions. The kernel decides which ids a client may use and what it may see (bus.session-ids). */
import { definedFields } from "@backplane/contract";
import { EntrySchema, JsonObjectSchema, SessionSchema } from "@backplane/contract/schema";
import type { Caller, SessionRef } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { createInTransaction } from "../requests/idempotency.ts";
import {
  EntryCursor,
  IdParams,
  listSchema,
  nameSchema,
  PageQuery,
  SessionId,
  splitPage,
  toSessionRef,
  UserMessageBody,
  Workspace,
  WorkspaceQuery,
} from "../requests/parameters.ts";
import { watchSession } from "../session-streams/watch-session.ts";
import type { SseItem } from "../sse/event-streams.ts";
import { readResumeCursor } from "../sse/resume-cursor.ts";
import type { RouteDeps } from "./route-deps.ts";

const READ = { scope: "sessions:read", delegated: "sessions:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "sessions:write" } as const;

const SessionCreate = z.strictObject({
  session_id: SessionId.optional().describe("By default the kernel generates an id."),
  workspace: Workspace.optional(),
  metadata: JsonObjectSchema.optional(),
  strategy: nameSchema(128).min(1).optional(),
});
const ForkBody = z.strictObject({
  child_id: SessionId.optional(),
  at: z.int().min(0).optional().describe("The last entry that the child inherits; default all."),
});
const ResetBody = z.strictObject({
  archive: z
    .boolean()
    .optional()
    .describe("If false, the closed chain is kept but not announced as an archive. Default true."),
});
const HandoffBody = z.strictObject({
  name: nameSchema(128).min(1).describe("Names that begin with session/ are reserved."),
  state: JsonObjectSchema.describe(
    "If `summary` is a string, the model sees it in place of the earlier entries.",
  ),
});
const ResetSchema = SessionSchema.extend({
  archive_path: z.string().nullable().describe("`chain:` and the id of the archived chain, or null."),
});
const EntriesQuery = WorkspaceQuery.extend({
  after: EntryCursor.default(0).describe("Returns entries after this one."),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
});
const EventsQuery = WorkspaceQuery.extend({
  since_entry: EntryCursor.optional().describe(
    "Replays all entries after this one; by default only new events are sent.",
  ),
});
const AcceptedSchema = z.object({ entry_id: z.int(), event_id: z.string(), run_id: z.string() });

interface StoredMessage {
  entry_id: number;
  event_id: string;
  run_id?: string;
  id?: string;
}

export function sessionRoutes({ kernel, clock, streams }: RouteDeps): Route[] {
  const { sessions, fanout } = kernel;
  return [
    defineRoute({
      method: "POST",
      path: "/v1/sessions",
      operation_id: "createSession",
      summary: "Create a session",
      tag: "Sessions",
      auth: WRITE,
      query: WorkspaceQuery,
      body: SessionCreate,
      idempotent: true,
      responses: { 201: { description: "The session.", schema: SessionSchema } },
      handler({ caller, query, body, request }) {
        const fields = definedFields({ ...query, ...body });
        return createInTransaction(kernel, caller, request, fields, 201, {
          create: (once) => sessions.create(caller, fields, once),
          readExisting: ({ session_id, workspace }: Required<SessionRef>) =>
            sessions.get(caller, { session_id, workspace }),
        });
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions",
      operation_id: "listSessions",
      summary: "List sessions, newest first",
      tag: "Sessions",
      auth: READ,
      query: PageQuery.extend({ workspace: Workspace.optional().describe("Default: all workspaces.") }),
      responses: { 200: { description: "A page.", schema: listSchema(SessionSchema) } },
      async handler({ caller, query }) {
        const { page, filter } = splitPage(query);
        return { status: 200, json: await sessions.list(caller, definedFields(filter), page) };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/{id}",
      operation_id: "getSession",
      summary: "Read a session",
      tag: "Sessions",
      auth: READ,
      params: IdParams,
      query: WorkspaceQuery,
      responses: { 200: { description: "The session.", schema: SessionSchema } },
      handler: async ({ caller, params, query }) => ({
        status: 200,
        json: await sessions.get(caller, toSessionRef(params.id, query)),
      }),
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/sessions/{id}",
      operation_id: "patchSession",
      summary: "Change a session's metadata",
      description:
        "Keys are merged; null removes a key. `strategy` in it sets the strategy of the following turns.",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: z.strictObject({ metadata: JsonObjectSchema }),
      responses: { 200: { description: "The session.", schema: SessionSchema } },
      handler: async ({ caller, params, query, body }) => ({
        status: 200,
        json: await sessions.patch(caller, toSessionRef(params.id, query), body.metadata),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}:branch",
      operation_id: "branchSession",
      summary: "Branch a session",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: ForkBody.optional(),
      idempotent: true,
      responses: { 201: { description: "The child.", schema: SessionSchema } },
      handler({ caller, params, query, body, request }) {
        const ref = toSessionRef(params.id, query);
        return createInTransaction(kernel, caller, request, body, 201, {
          create: (once) => sessions.fork(caller, ref, definedFields(body ?? {}), once),
          async readExisting({ id }: { id: string }) {
            const { session_id, workspace } = await kernel.chains.get(caller, id);
            return await sessions.get(caller, { session_id, workspace });
          },
        });
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}/messages",
      operation_id: "sendMessage",
      summary: "Send a message",
      description:
        "Responds 202 when the message is on disk. A missing session is created. A message during a turn joins that turn. " +
        "A delegated token needs `runs:write` for a message that starts a turn, and a harness an Idempotency-Key.",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: UserMessageBody,
      idempotent: true,
      responses: {
        202: {
          description: "The message is on disk; the reply is sent as an event.",
          schema: AcceptedSchema,
        },
      },
      handler({ caller, params, query, body, request }) {
        const ref = toSessionRef(params.id, query);
        return createInTransaction(kernel, caller, request, body, 202, {
          create: (once) => sessions.sendMessage(caller, ref, definedFields(body), once),
          // The id of a run is stored as `id` if the message started the run, and as `run_id` if the message joined it.
          readExisting: async ({ entry_id, event_id, run_id, id }: StoredMessage) => ({
            entry_id,
            event_id,
            run_id: run_id ?? id,
          }),
        });
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}:interrupt",
      operation_id: "interruptSession",
      summary: "Interrupt the running turn",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      responses: {
        200: { description: "Whether a turn was running.", schema: z.object({ interrupted: z.boolean() }) },
      },
      handler: async ({ caller, params, query }) => ({
        status: 200,
        json: { interrupted: await sessions.interrupt(caller, toSessionRef(params.id, query)) },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}:reset",
      operation_id: "resetSession",
      summary: "Archive the chain of a session and start a new one",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: ResetBody.optional(),
      responses: { 200: { description: "The session with its new chain.", schema: ResetSchema } },
      handler: async ({ caller, params, query, body }) => ({
        status: 200,
        json: await sessions.reset(caller, toSessionRef(params.id, query), definedFields(body ?? {})),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}:handoff",
      operation_id: "handOffSession",
      summary: "Append an anchor at which the model's context begins",
      description:
        "Earlier entries stay on the tape, but the following turns do not see them. Refused while a turn runs.",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: HandoffBody,
      responses: { 201: { description: "The anchor.", schema: EntrySchema } },
      handler: async ({ caller, params, query, body }) => ({
        status: 201,
        json: await sessions.handOff(caller, toSessionRef(params.id, query), body),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/{id}/entries",
      operation_id: "listEntries",
      summary: "List the entries of a session in order",
      description:
        "The entries of all chains of the session. Inherited entries of a branched session come first.",
      tag: "Sessions",
      auth: READ,
      params: IdParams,
      query: EntriesQuery,
      responses: { 200: { description: "A page.", schema: listSchema(EntrySchema) } },
      async handler({ caller, params, query }) {
        const { after, limit } = query;
        const items = await sessions.listEntries(caller, toSessionRef(params.id, query), after, limit);
        const next = items.length < limit ? null : String(items.at(-1)!.id);
        return { status: 200, json: { items, next } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/sessions/{id}/events",
      operation_id: "watchSession",
      summary: "Follow a session",
      description:
        "Server-sent events, the same as over /ws: `event` is the kind, `data` the op `{op, session_id, event, entry_id?}`, " +
        "and `id` the entry id of events that are on the tape. A replay ends with session.replay.done.",
      tag: "Sessions",
      auth: READ,
      params: IdParams,
      query: EventsQuery,
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      async handler({ caller, params, query, request, reply }) {
        const resumed = request.headers["last-event-id"] !== undefined;
        const since = resumed ? readResumeCursor(request, query.since_entry) : (query.since_entry ?? null);
        const ref = toSessionRef(params.id, query);
        // Attaching would create a missing session.
        await sessions.get(caller, ref);
        return await follow(caller, ref, since, (items) => streams.stream(reply, items));
      },
    }),
  ];

  async function follow<T>(
    caller: Caller,
    ref: SessionRef,
    since: number | null,
    use: (items: (stop: AbortSignal) => AsyncIterable<SseItem>) => Promise<T>,
  ): Promise<T> {
    const watch = await watchSession({ fanout, clock }, caller, ref, since);
    try {
      return await use(async function* (stop) {
        for await (const { event, entry_id, frame } of watch.items(stop))
          yield { ...(entry_id === null ? {} : { id: entry_id }), event: event.kind, data: frame };
      });
    } finally {
      watch.close();
    }
  }
}
