/** Valid and invalid payloads of every public kind, according to the tables of the protocol. */
import type { BusKind } from "@backplane/contract";

interface Sample {
  good: Record<string, unknown>[];
  bad: Record<string, unknown>[];
}

const call = { id: "c1", name: "bash", args: {} };
const usage = { input_other: 1, output: 2 };
const session_ref = { session_id: "s" };
const target = { target_session_id: "s" };

export const SAMPLES: Record<BusKind, Sample> = {
  "user.message.received": {
    good: [{ text: "hi" }, { text: "hi", attachments: [{ name: "a.png" }] }, { text: "hi", persist: false }],
    bad: [{}, { text: 1 }, { text: "hi", attachments: "a.png" }],
  },
  "user.interrupt": { good: [{}], bad: [] },
  "assistant.message.delta": { good: [{ content: "a" }], bad: [{}, { content: null }] },
  "assistant.message.done": {
    good: [{ content: "a", tool_calls: [call] }],
    bad: [{ content: "a" }, { content: "a", tool_calls: [{ id: "c1" }] }],
  },
  "llm.call.request": {
    good: [
      { provider: "p", model: "m", messages: [{ role: "user", content: "hi" }], tools: [{}], params: {} },
    ],
    bad: [
      { provider: "p", model: "m", messages: [{}], params: {} },
      { provider: "p", model: "m", messages: [] },
    ],
  },
  "llm.call.delta": {
    good: [{ content: "a" }, { tool_call_partial: {} }],
    bad: [{ content: 1 }, { request_id: 1 }],
  },
  "llm.call.response": {
    good: [{ usage }, { text: "a", tool_calls: [call], usage, request_id: "evt_1" }],
    bad: [{ text: "a" }, { usage, tool_calls: [1] }],
  },
  "llm.call.error": {
    good: [{ error: "e" }, { error: "e", kind: "status", status_code: 429, retry_after_s: 0.5 }],
    bad: [{}, { error: "e", kind: "weather" }, { error: "e", status_code: 4.5 }],
  },
  "tool.call.request": {
    good: [call, { ...call, schema_version: "v1" }],
    bad: [{ id: "c1" }, { ...call, schema_version: "v2" }, { ...call, args: [] }],
  },
  "tool.call.start": { good: [call], bad: [{ id: "c1", name: "bash" }] },
  "tool.call.result": {
    good: [
      { id: "c1", ok: true, value: [1] },
      { id: "c1", ok: false, error: "e", envelope: {} },
    ],
    bad: [{ id: "c1" }, { id: "c1", ok: "yes" }, { id: "c1", ok: true, envelope: "e" }],
  },
  "tool.error": {
    good: [{ id: "c1", kind: "not_found", brief: "b", detail: {} }],
    bad: [
      { id: "c1", kind: "crashed", brief: "b" },
      { id: "c1", kind: "rejected" },
    ],
  },
  "approval.request": {
    good: [{ id: "a", tool_name: "t", params: {}, brief: "b", ...target }],
    bad: [{ id: "a", tool_name: "t", params: {}, brief: "b" }],
  },
  "approval.response": {
    good: [{ id: "a", response: "reject", feedback: "no" }],
    bad: [{ id: "a", response: "yes" }, { response: "approve" }],
  },
  "approval.cancelled": {
    good: [{ id: "a", reason: "timeout", ...target }],
    bad: [{ id: "a", reason: "bored", ...target }],
  },
  "memory.query": { good: [{ query: "q", k: 3 }], bad: [{ query: "q" }, { query: "q", k: -1 }] },
  "memory.write": { good: [{ entry: { text: "t" } }], bad: [{}, { entry: "t" }] },
  "memory.result": { good: [{ hits: [{}] }], bad: [{}, { hits: [1] }] },
  "strategy.decide.request": { good: [{ state: {} }], bad: [{}] },
  "strategy.decide.response": { good: [{ next: "llm", provider: "p" }], bad: [{ next: "sleep" }] },
  "plugin.loaded": { good: [{ name: "n", version: "1.0.0", category: "tool" }], bad: [{ name: "n" }] },
  "plugin.reloaded": { good: [{ name: "n", version: "1.0.0" }], bad: [{ name: "n" }] },
  "plugin.removed": { good: [{ name: "n" }], bad: [{}] },
  "plugin.error": { good: [{ name: "n", error: "e" }], bad: [{ name: "n" }] },
  "kernel.ready": { good: [{ version: "1.0.0" }], bad: [{}] },
  "kernel.shutdown": { good: [{ reason: "r" }], bad: [{}] },
  "kernel.error": { good: [{ source: "s", message: "m", detail: {} }], bad: [{ source: "s" }] },
  "session.started": { good: [{ ...session_ref, tape_name: "t", workspace: "w" }], bad: [session_ref] },
  "session.handoff": {
    good: [{ ...session_ref, name: "n", state: {} }],
    bad: [{ ...session_ref, name: "n" }],
  },
  "session.reset": {
    good: [
      { ...session_ref, archive_path: null },
      { ...session_ref, archive_path: "p" },
    ],
    bad: [session_ref],
  },
  "session.archived": {
    good: [{ ...session_ref, archive_path: "p" }],
    bad: [{ ...session_ref, archive_path: null }],
  },
  "session.forked": { good: [{ parent_id: "p", child_id: "c" }], bad: [{ parent_id: "p" }] },
  "session.compaction.started": { good: [{ ...target, tokens_before: 9 }], bad: [{ tokens_before: 9 }] },
  "session.compaction.completed": {
    good: [{ ...target, tokens_before: 9, tokens_after: 1 }],
    bad: [{ ...target, tokens_before: 9 }],
  },
  "session.compaction.failed": { good: [{ ...target, error: "e" }], bad: [target] },
  "session.context.attached": {
    good: [{ ...session_ref, connection_id: "c", adapter_id: "web" }],
    bad: [{ ...session_ref, connection_id: "c" }],
  },
  "session.context.detached": {
    good: [{ ...session_ref, connection_id: "c", reason: "send_failed" }],
    bad: [{ ...session_ref, connection_id: "c", reason: "bored" }],
  },
  "session.context.evicted": { good: [{ ...session_ref, reason: "idle" }], bad: [session_ref] },
  "session.replay.entry": {
    good: [{ ...session_ref, entry_id: 1, kind: "message", payload: {} }],
    bad: [{ ...session_ref, entry_id: "1", kind: "message", payload: {} }],
  },
  "session.replay.done": {
    good: [{ ...session_ref, connection_id: "c", replayed: 0 }],
    bad: [{ ...session_ref, replayed: 0 }],
  },
  "config.updated": { good: [{ key: "a.b", prefix_match_hint: "a." }], bad: [{ key: "a.b" }] },
};
