/**
 * Payload schemas of the bus, one per public kind. Named fields are checked; other fields are accepted, so that a field
 * can be added without breaking readers. `persist: false` and `__persist__: false` keep an event off the tape, unless
 * its kind is always recorded (messages, tool calls and their results).
 */
import { z } from "zod";
import type { BusKind } from "../vocabulary/bus-kinds.ts";
import { ANSWER_COVERAGES, APPROVAL_RESPONSES } from "../vocabulary/vocabulary.ts";
import { ToolFailureSchema } from "./invocation.ts";

const text = z.string();
const count = z.int().min(0);
const dict = z.record(z.string(), z.unknown());
const request_id = z.string().optional();

const ToolCall = z.looseObject({ id: text, name: text, args: dict });
const Message = z.looseObject({ role: text });
const MemoryEntry = z.looseObject({});
const target = { target_session_id: text };
const subject = { session_id: text };
const call = { id: text, name: text, args: dict };

export const BUS_PAYLOADS = {
  "user.message.received": z.looseObject({ text, attachments: z.array(z.looseObject({})).optional() }),
  "user.interrupt": z.looseObject({}),
  "assistant.message.delta": z.looseObject({ content: text }),
  "assistant.message.done": z.looseObject({ content: text, tool_calls: z.array(ToolCall) }),
  "llm.call.request": z.looseObject({
    provider: text,
    model: text,
    messages: z.array(Message),
    tools: z.array(z.looseObject({})).optional(),
    params: dict,
    /** Texts to embed. The request then has no messages, and the response has `embeddings`. */
    input: z.array(text).optional(),
  }),
  "llm.call.delta": z.looseObject({
    content: text.optional(),
    /** The thinking of the model before its answer; not part of the answer. */
    thinking: text.optional(),
    /** Ends a block of thinking. */
    thinking_seal: text.optional(),
    tool_call_partial: dict.optional(),
    /** Events of the vendor's own protocol, for a request that was passed on unchanged. */
    native: z.array(dict).optional(),
    request_id,
  }),
  "llm.call.response": z.looseObject({
    text: text.optional(),
    tool_calls: z.array(ToolCall).optional(),
    /** One list of numbers per text of `input`. */
    embeddings: z.array(z.array(z.unknown())).optional(),
    usage: dict,
    request_id,
  }),
  "llm.call.error": z.looseObject({
    error: text,
    kind: z.enum(["connection", "timeout", "status", "empty", "other"]).optional(),
    status_code: z.int().optional(),
    retry_after_s: z.number().optional(),
    request_id,
  }),
  "tool.call.request": z.looseObject({ ...call, schema_version: z.literal("v1").optional(), request_id }),
  "tool.call.start": z.looseObject(call),
  "tool.call.result": z.looseObject({
    id: text,
    ok: z.boolean(),
    value: z.unknown().optional(),
    error: text.optional(),
    envelope: dict.optional(),
    /**
     * All blocks of the result; absent for a single plain text or structured output alone, which the display contains.
     */
    content: z.array(z.looseObject({ type: text })).optional(),
    status: text.optional(),
    failure: ToolFailureSchema.optional(),
    /** The last progress message, and the end of the incremental output. */
    progress: z.looseObject({ status: text.optional(), output: text.optional() }).optional(),
    /** The turn ends with this result. */
    yield_to_user: z.boolean().optional(),
    request_id,
  }),
  "tool.error": z.looseObject({
    id: text,
    kind: z.enum(["validation", "not_found", "rejected"]),
    brief: text,
    detail: dict.optional(),
    request_id,
  }),
  "approval.request": z.looseObject({ id: text, tool_name: text, params: dict, brief: text, ...target }),
  "approval.response": z.looseObject({
    id: text,
    response: z.enum(APPROVAL_RESPONSES),
    covers: z.enum(ANSWER_COVERAGES).optional(),
    feedback: text.optional(),
    target_session_id: text.optional(),
  }),
  "approval.cancelled": z.looseObject({
    id: text,
    reason: z.enum(["timeout", "shutdown", "interrupt", "revoked"]),
    ...target,
  }),
  /** `stores` names the plugins that receive the event; all memory plugins if it is absent. */
  "memory.query": z.looseObject({ query: text, k: count, stores: z.array(text).optional() }),
  "memory.write": z.looseObject({ entry: MemoryEntry, stores: z.array(text).optional() }),
  "memory.result": z.looseObject({ hits: z.array(MemoryEntry), request_id }),
  "strategy.decide.request": z.looseObject({ state: dict }),
  "strategy.decide.response": z.looseObject({ next: z.enum(["llm", "tool", "memory", "done"]), request_id }),
  "plugin.loaded": z.looseObject({ name: text, version: text, category: text }),
  "plugin.reloaded": z.looseObject({ name: text, version: text }),
  "plugin.removed": z.looseObject({ name: text }),
  "plugin.error": z.looseObject({ name: text, error: text }),
  "kernel.ready": z.looseObject({ version: text }),
  "kernel.shutdown": z.looseObject({ reason: text }),
  "kernel.error": z.looseObject({ source: text, message: text, detail: dict.optional() }),
  "session.started": z.looseObject({ ...subject, tape_name: text, workspace: text }),
  "session.handoff": z.looseObject({ ...subject, name: text, state: dict }),
  "session.reset": z.looseObject({ ...subject, archive_path: text.nullable() }),
  "session.archived": z.looseObject({ ...subject, archive_path: text }),
  "session.forked": z.looseObject({ parent_id: text, child_id: text }),
  "session.compaction.started": z.looseObject({ ...target, tokens_before: count }),
  "session.compaction.completed": z.looseObject({ ...target, tokens_before: count, tokens_after: count }),
  "session.compaction.failed": z.looseObject({ ...target, error: text }),
  "session.context.attached": z.looseObject({ ...subject, connection_id: text, adapter_id: text }),
  "session.context.detached": z.looseObject({
    ...subject,
    connection_id: text,
    reason: z.enum(["client_close", "timeout", "shutdown", "send_failed"]),
  }),
  "session.context.evicted": z.looseObject({ ...subject, reason: text }),
  "session.replay.entry": z.looseObject({ ...subject, entry_id: count, kind: text, payload: dict }),
  "session.replay.done": z.looseObject({ ...subject, connection_id: text, replayed: count }),
  "config.updated": z.looseObject({ key: text, prefix_match_hint: text }),
} as const satisfies Record<BusKind, z.ZodType>;

/** The envelope of an event. `ts` is in unix seconds; `source` is the name of a plugin or `kernel…`. */
export const BusEventSchema = z.object({
  id: z.string(),
  kind: z.string(),
  session_id: z.string(),
  ts: z.number(),
  source: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable(),
  payload: z.record(z.string(), z.unknown()),
});

export type BusPayloads = { [K in BusKind]: z.infer<(typeof BUS_PAYLOADS)[K]> };
export type BusPayload<K extends string> = K extends BusKind ? BusPayloads[K] : Record<string, unknown>;

export interface BusEvent<K extends string = string> {
  readonly id: string;
  readonly kind: K;
  readonly session_id: string;
  readonly ts: number;
  readonly source: string;
  readonly org_id: string;
  readonly project_id: string | null;
  readonly payload: Readonly<BusPayload<K>>;
}
