/**
 * Messages on `/ws`, one JSON object per text frame (ws.schema). `ref` is chosen by the client and returned with the
 * answer. `connection_id` selects the attachment of an op; it is optional if the socket has only one.
 */
import { z } from "zod";
import { ANSWER_COVERAGES, APPROVAL_RESPONSES, APPROVAL_STATUSES } from "../vocabulary/vocabulary.ts";
import { JsonObjectSchema } from "./scalars.ts";

const ref = z.string().max(128).optional();
const connection_id = z.string().max(128).optional();

export const WsClientOpSchema = z.discriminatedUnion("op", [
  z.strictObject({
    op: z.literal("attach"),
    session_id: z.string(),
    workspace: z.string().min(1).max(1024).optional(),
    /** The last entry that the client has; later entries are replayed. 0 replays all entries, null none. */
    since_entry: z.int().min(0).nullable().default(null),
    /** The lost connection that this one replaces. */
    connection_id,
    ref,
  }),
  /** Every frame counts as a heartbeat; this one is for idle clients. */
  z.strictObject({ op: z.literal("heartbeat"), ref }),
  z.strictObject({
    op: z.literal("message"),
    text: z.string().min(1),
    attachments: z.array(JsonObjectSchema).max(64).optional(),
    connection_id,
    ref,
  }),
  z.strictObject({ op: z.literal("interrupt"), connection_id, ref }),
  z.strictObject({
    op: z.literal("approve"),
    id: z.string(),
    response: z.enum(APPROVAL_RESPONSES),
    covers: z.enum(ANSWER_COVERAGES).optional(),
    feedback: z.string().max(2000).optional(),
    /** Digest of the approval that the client showed; the answer is valid only for it. */
    digest: z.string().optional(),
    ref,
  }),
  z.strictObject({ op: z.literal("detach"), connection_id, ref }),
]);

/** The envelope of the bus without org and project, which a client knows. `ts` is in unix seconds. */
export const WsEventSchema = z.object({
  id: z.string(),
  kind: z.string(),
  session_id: z.string(),
  ts: z.number(),
  source: z.string(),
  payload: z.record(z.string(), z.unknown()),
});

const accepted_fields = { op: z.literal("accepted"), ref };

const AcceptedSchema = z.discriminatedUnion("of", [
  /** The message is on disk. */
  z.object({
    ...accepted_fields,
    of: z.literal("message"),
    connection_id: z.string(),
    entry_id: z.int(),
    event_id: z.string(),
    run_id: z.string(),
  }),
  z.object({
    ...accepted_fields,
    of: z.literal("interrupt"),
    connection_id: z.string(),
    /** False if no turn was running. */
    interrupted: z.boolean(),
  }),
  z.object({
    ...accepted_fields,
    of: z.literal("approve"),
    id: z.string(),
    status: z.enum(APPROVAL_STATUSES),
  }),
]);

export const WsServerOpSchema = z.discriminatedUnion("op", [
  z.object({
    op: z.literal("attached"),
    connection_id: z.string(),
    session_id: z.string(),
    workspace: z.string(),
    /** The session's last entry when the client attached. */
    last_entry_id: z.int(),
    /** A client that is silent for longer is detached. */
    heartbeat_ms: z.int(),
    ref,
  }),
  z.object({
    op: z.literal("event"),
    /** The attachment's session, even for events published on the `kernel` session. */
    session_id: z.string(),
    event: WsEventSchema,
    /** The event's tape entry, if any; the client sends it as `since_entry` when it reconnects. */
    entry_id: z.int().optional(),
  }),
  z.object({ op: z.literal("heartbeat"), ref }),
  AcceptedSchema,
  z.object({
    op: z.literal("error"),
    /** The op that failed, if it could be read. */
    of: z.string().optional(),
    code: z.string(),
    message: z.string(),
    fix: z.string(),
    retryable: z.boolean(),
    ref,
  }),
  z.object({
    op: z.literal("detached"),
    connection_id: z.string(),
    session_id: z.string(),
    reason: z.enum(["client_close", "timeout", "shutdown", "send_failed"]),
    ref,
  }),
]);

export type WsClientOp = z.infer<typeof WsClientOpSchema>;
export type WsEvent = z.infer<typeof WsEventSchema>;
export type WsServerOp = z.infer<typeof WsServerOpSchema>;
