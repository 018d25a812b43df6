import type { Json, JsonObject } from "@backplane/sdk/kernel";
import { jsonResponse, parseCount, pick, type RouteCall, type ServedRoute } from "./route.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1_000;

const toSessionRef = ({ params, query }: RouteCall): JsonObject => ({
  session_id: params.id!,
  ...(query.workspace === undefined ? {} : { workspace: query.workspace }),
});

export const SESSION_ROUTES: readonly ServedRoute[] = [
  {
    method: "GET",
    path: "/api/sessions",
    summary: "List sessions, newest first",
    scope: "sessions:read",
    responses: { 200: "A page of sessions, and the cursor of the next page." },
    async handle({ query, service }) {
      const page = await service<{ items: Json; next: string | null }>("sessions.list", {
        limit: parseCount(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE),
        ...(query.after === undefined ? {} : { after: query.after }),
        ...(query.workspace === undefined ? {} : { workspace: query.workspace }),
      });
      return jsonResponse({ sessions: page.items, next: page.next });
    },
  },
  {
    method: "GET",
    path: "/api/sessions/{id}/entries",
    summary: "List the entries of a session's tape that follow an entry",
    scope: "sessions:read",
    responses: { 200: "Entries in order.", 404: "There is no such session." },
    async handle(call) {
      const after = parseCount(call.query.after, 0, Number.MAX_SAFE_INTEGER);
      const limit = parseCount(call.query.limit, 500, MAX_PAGE_SIZE);
      const entries: Json = await call.service("sessions.entries", { ...toSessionRef(call), after, limit });
      return jsonResponse({ entries });
    },
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/message",
    summary: "Send a message; it is on disk when the response is sent",
    scope: "sessions:write",
    body: {
      type: "object",
      properties: { text: { type: "string" }, attachments: { type: "array", items: { type: "object" } } },
      required: ["text"],
      additionalProperties: false,
    },
    responses: { 202: "Accepted; the answer arrives as an event.", 429: "Too many messages are queued." },
    handle: async (call) =>
      jsonResponse(
        await call.service("sessions.message", {
          ...pick(call.body, "text", "attachments"),
          ...toSessionRef(call),
        }),
        202,
      ),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/interrupt",
    summary: "End the running turn",
    scope: "sessions:write",
    responses: { 200: "Whether a turn was running." },
    handle: async (call) =>
      jsonResponse({ interrupted: await call.service("sessions.interrupt", toSessionRef(call)) }),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/fork",
    summary: "Fork a session: the child reads this tape and writes its own",
    scope: "sessions:write",
    body: {
      type: "object",
      properties: { child_id: { type: "string" }, at: { type: "integer" } },
      additionalProperties: false,
    },
    responses: { 201: "The child.", 404: "There is no such session.", 409: "The id is taken." },
    handle: async (call) =>
      jsonResponse(
        await call.service("sessions.fork", { ...pick(call.body, "child_id", "at"), ...toSessionRef(call) }),
        201,
      ),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/reset",
    summary: "Archive the tape and start a new one",
    scope: "sessions:write",
    body: { type: "object", properties: { archive: { type: "boolean" } }, additionalProperties: false },
    responses: { 200: "The session with its new chain.", 404: "There is no such session." },
    handle: async (call) =>
      jsonResponse(
        await call.service("sessions.reset", { ...pick(call.body, "archive"), ...toSessionRef(call) }),
      ),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/handoff",
    summary: "Append an anchor at which the model's context begins",
    scope: "sessions:write",
    body: {
      type: "object",
      properties: { name: { type: "string" }, state: { type: "object" } },
      required: ["name", "state"],
      additionalProperties: false,
    },
    responses: { 201: "The anchor.", 404: "There is no such session.", 409: "A turn is running." },
    handle: async (call) =>
      jsonResponse(
        await call.service("sessions.handoff", {
          ...pick(call.body, "name", "state"),
          ...toSessionRef(call),
        }),
        201,
      ),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/compact",
    summary: "Compact the session: summarize earlier entries on a new chain",
    scope: "sessions:write",
    responses: { 200: "The new chain.", 404: "There is no such session." },
    handle: async (call) => jsonResponse(await call.service("sessions.compact", toSessionRef(call))),
  },
  {
    method: "POST",
    path: "/api/sessions/{id}/undo-compaction",
    summary: "Undo a compaction: move the session back to the previous chain",
    scope: "sessions:write",
    responses: { 200: "The previous chain, which is the head again.", 400: "The head is not a compaction." },
    handle: async (call) => jsonResponse(await call.service("sessions.undo", toSessionRef(call))),
  },
];
