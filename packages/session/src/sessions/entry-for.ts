/**
 * The persistence table (tape.append-only, tape.durable): which bus event becomes which entry. Essential ones
 * are on disk before they are acknowledged and cannot opt out; all others are best effort.
 */

import { hash } from "node:crypto";
import type { Json, JsonObject } from "@backplane/contract";
import type { NewEntry } from "@backplane/ports";
import { isShared } from "../snapshot/snapshot.ts";
import { isoDate } from "./iso-date.ts";

/** What the tape needs of a bus event. `ts` is in seconds, as on the bus. */
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

type Shape = Pick<NewEntry, "kind" | "payload">;

/** A tool's refusal is the outcome of its call as much as a result is. */
const ESSENTIAL: Readonly<Record<string, (payload: JsonObject) => Shape>> = {
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
    payload: { tool_call_id: id ?? null, ...pick(rest, ["ok", "value", "error", "envelope"]) },
  }),
  "tool.error": (data) => ({ kind: "event", payload: { name: "tool.error", data } }),
};

/** What a turn that is taken up again has to know of its calls. */
const IN_META = ["request_id", "step", "yield_to_user"];
const SKIPPED: ReadonlySet<string> = new Set(["assistant.message.delta", "llm.call.delta"]);
const KERNEL_SESSION = "kernel";

/** Null: the event leaves no entry. */
export function entryFor(event: TapedEvent): TapedEntry | null {
  const { kind } = event;
  const payload = event.payload as JsonObject;
  if (event.session_id === KERNEL_SESSION || SKIPPED.has(kind) || kind.startsWith("session.")) return null;
  const essential = Object.hasOwn(ESSENTIAL, kind);
  if (!essential && (payload.persist === false || payload.__persist__ === false)) return null;
  const shape = essential ? ESSENTIAL[kind]!(payload) : other(kind, payload);
  return {
    essential,
    entry: {
      ...shape,
      meta: { event_id: event.id, source: event.source, ...pick(payload, IN_META) },
      date: isoDate(event.ts * 1000),
    },
  };
}

function other(kind: string, payload: JsonObject): Shape {
  const data = (SHORTENED[kind] ?? whole)(payload);
  return { kind: "event", payload: { name: kind, data } };
}

/** What the tape says already, or what every call repeats, is left out. */
const SHORTENED: Readonly<Record<string, (payload: JsonObject) => JsonObject>> = {
  "llm.call.request": withReferences,
  "strategy.decide.request": withToolCount,
};

const whole = (payload: JsonObject) => payload;

function withToolCount(payload: JsonObject): JsonObject {
  const { state } = payload;
  if (typeof state !== "object" || state === null || Array.isArray(state)) return payload;
  const { tools, ...rest } = state;
  return Array.isArray(tools) ? { ...payload, state: { ...rest, tool_count: tools.length } } : payload;
}

/**
 * The messages are the tape's own entries before this one; written out with each call the tape would grow
 * with the square of its length. The digest tells whether a context made again is the one that was sent.
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

/** Of messages that come again with every call of their session. */
const texts = new WeakMap<object, string>();
const KEPT_TEXT = 4_096;

function jsonOf(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  if (text.length <= KEPT_TEXT && isShared(value)) texts.set(value, text);
  return text;
}

function pick(from: JsonObject, keys: readonly string[]): JsonObject {
  const found: Record<string, Json> = {};
  for (const key of keys) if (from[key] !== undefined) found[key] = from[key];
  return found;
}
