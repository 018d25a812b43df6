/**
 * Maps bus events to tape entries (tape.append-only, tape.durable). Essential entries are on disk before their event is
 * acknowledged, and their events cannot opt out of the tape; all other entries are best effort.
 */

import { hash } from "node:crypto";
import { isArtifact, isObject, type Json, type JsonObject, KERNEL_SESSION } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { isShared } from "../snapshot/snapshot.ts";

/** The part of a bus event that the tape records. `ts` is in seconds, as on the bus. */
export interface TapedEvent {
  id: string;
  kind: string;
  session_id: string;
  ts: number;
  source: string;
  /** Plain JSON; the bus has checked it. */
  payload: Readonly<Record<string, unknown>>;
}

export interface TapedEntry {
  entry: NewEntry;
  essential: boolean;
}

type EntryContent = Pick<NewEntry, "kind" | "payload">;

/**
 * The kinds that are recorded even if the payload sets `persist` to false. tool.error is essential, because it is the
 * outcome of a call that was rejected.
 */
const ESSENTIAL: Readonly<Record<string, (payload: JsonObject) => EntryContent>> = {
  "user.message.received": ({ text, ...rest }) => ({
    kind: "message",
    payload: { role: "user", content: text ?? "", ...pick(rest, ["attachments"]) },
  }),
  "assistant.message.done": ({ content, tool_calls }) => ({
    kind: "message",
    payload: {
      role: "assistant",
      content: content ?? "",
      ...(Array.isArray(tool_calls) && tool_calls.length > 0 ? { tool_calls } : {}),
    },
  }),
  "tool.call.request": (payload) => ({ kind: "tool_call", payload: pick(payload, ["id", "name", "args"]) }),
  "tool.call.result": ({ id, ...rest }) => ({
    kind: "tool_result",
    payload: { tool_call_id: id ?? null, ...pick(rest, RESULT_FIELDS) },
  }),
  "tool.error": (data) => ({ kind: "event", payload: { name: "tool.error", data } }),
};

const RESULT_FIELDS = ["ok", "content", "value", "error", "envelope", "status", "failure", "progress"];

/**
 * Fields by which a resumed turn matches calls with their results and sees that a tool returned control to the user.
 */
const META_FIELDS = ["request_id", "step", "yield_to_user"];
const SKIPPED: ReadonlySet<string> = new Set(["assistant.message.delta", "llm.call.delta"]);

/** Returns null for an event that is not recorded. */
export function toTapedEntry(event: TapedEvent): TapedEntry | null {
  const { kind } = event;
  const payload = event.payload as JsonObject;
  if (event.session_id === KERNEL_SESSION || SKIPPED.has(kind) || kind.startsWith("session.")) return null;
  const essential = Object.hasOwn(ESSENTIAL, kind);
  if (!essential && (payload.persist === false || payload.__persist__ === false)) return null;
  const content = essential ? ESSENTIAL[kind]!(payload) : toEventEntry(kind, payload);
  return {
    essential,
    entry: {
      ...content,
      meta: { event_id: event.id, source: event.source, ...pick(payload, META_FIELDS) },
      date: new Date(event.ts * 1000).toISOString(),
    },
  };
}

function toEventEntry(kind: string, payload: JsonObject): EntryContent {
  const data = (SHORTEN[kind] ?? unchanged)(payload);
  return { kind: "event", payload: { name: kind, data } };
}

/** Omits data that the tape already holds or that every call repeats. */
const SHORTEN: Readonly<Record<string, (payload: JsonObject) => JsonObject>> = {
  "llm.call.request": withReferences,
  "strategy.decide.request": withToolCount,
};

const unchanged = (payload: JsonObject) => payload;

function withToolCount(payload: JsonObject): JsonObject {
  const { state } = payload;
  if (!isObject(state)) return payload;
  const { tools, ...rest } = state;
  return Array.isArray(tools) ? { ...payload, state: { ...rest, tool_count: tools.length } } : payload;
}

/**
 * Replaces the messages with a reference to the entries before this entry, and the tools with their names. Repeating
 * the messages for each call would make the tape grow quadratically. The digest shows whether a rebuilt context equals
 * the context that was sent.
 */
function withReferences(payload: JsonObject): JsonObject {
  const { messages, tools } = payload;
  const list = Array.isArray(messages) ? messages : [];
  const digest = hash("sha256", `[${list.map(jsonOf).join(",")}]`);
  const data: JsonObject = {};
  for (const key in payload) if (key !== "messages" && key !== "tools") data[key] = payload[key]!;
  data.messages_ref = { entries: "before", count: list.length, digest: `sha256:${digest}` };
  if (Array.isArray(tools)) data.tool_names = tools.map((tool) => (tool as { name?: Json }).name ?? null);
  return data;
}

/**
 * The JSON of shared messages. Every model call of a session repeats its messages, so without this cache each digest
 * would serialize the whole context again (benchmark loop.turn).
 */
const json_cache = new WeakMap<object, string>();
const MAX_CACHED_LENGTH = 4_096;

function jsonOf(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const cached = json_cache.get(value);
  if (cached !== undefined) return cached;
  const text = JSON.stringify(
    value,
    Array.isArray((value as JsonObject).content) ? withoutLoadedData : undefined,
  );
  if (text.length <= MAX_CACHED_LENGTH && isShared(value)) json_cache.set(value, text);
  return text;
}

/** Omits data that was loaded for the call and keeps its reference, as in a context that is rebuilt from the tape. */
function withoutLoadedData(this: unknown, key: string, value: unknown): unknown {
  if (key === "data" && isArtifact(this as Json)) return undefined;
  if (key !== "resource" || !isArtifact(this as Json) || !isObject(value)) return value;
  const { blob: _blob, ...rest } = value;
  return rest;
}

function pick(from: JsonObject, keys: readonly string[]): JsonObject {
  const fields: Record<string, Json> = {};
  for (const key of keys) if (from[key] !== undefined) fields[key] = from[key];
  return fields;
}
