/**
 * Reads the progress of a turn from its tape alone: the last answer of the model, the results of its calls, the tools
 * that it found, and the tools that it called although they were not allowed.
 */
import {
  type AgentLoopState,
  type BusPayload,
  type Entry,
  isObject,
  type Json,
  type JsonObject,
  type TokenUsage,
} from "@backplane/contract";
import { SEARCH_TOOL } from "@backplane/door";
import { type ModelAnswer, toModelAnswer } from "../models/call-model.ts";

type CallResult = Pick<AgentLoopState["tool_results"][number], "ok" | "brief"> & {
  /** Set if the tool returned control to the user. */
  yields?: true;
};

export interface Progress {
  /** Null means that the model has to be called. */
  answer: ModelAnswer | null;
  /**
   * Results by call id. Results of earlier calls whose ids this answer reuses are removed, because some models number
   * their calls from zero in every answer.
   */
  results: ReadonlyMap<string, CallResult>;
  /** Calls on the tape that have no result yet. */
  open: string[];
  /** Whether a user sent a message after the last model call. */
  has_new_message: boolean;
  usage: TokenUsage[];
}

/**
 * A model's answer is current until it is recorded as a message. Entries before `first_entry_id` belong to another
 * turn, even when a compaction has copied them to a new chain.
 */
export function readTurnProgress(entries: readonly Entry[], first_entry_id: number): Progress {
  const results = new Map<string, CallResult>();
  const usage: TokenUsage[] = [];
  const calls = new Set<string>();
  let answer: ModelAnswer | null = null;
  let has_new_message = false;
  for (const { id, kind, payload, meta } of entries) {
    if (kind === "tool_call") {
      // The tape of a sub-agent begins with the call of its parent, which waits for the sub-agent itself.
      if (Number(meta.copy_of ?? id) < first_entry_id) continue;
      calls.add(textOf(payload.id));
      results.delete(textOf(payload.id));
      // The model's answer that requested this call was not kept. The result of the call is in the history, so the
      // model is called again.
      if (meta.step !== answer?.step) answer = null;
    } else if (kind === "tool_result") {
      results.set(textOf(payload.tool_call_id), toResult(payload, meta));
    } else if (kind === "message") {
      has_new_message = payload.role === "user";
      if (has_new_message) continue;
      answer = null;
      calls.clear();
    } else if (kind === "event" && isObject(payload.data)) {
      const { name, data } = payload;
      if (name === "tool.error") results.set(textOf(data.id), { ok: false, brief: textOf(data.brief) });
      else if (name === "llm.call.request") has_new_message = false;
      if (name !== "llm.call.response" || Number(meta.copy_of ?? id) < first_entry_id) continue;
      const response = data as unknown as BusPayload<"llm.call.response">;
      answer = toModelAnswer(textOf(data.request_id), { payload: response });
      usage.push(answer.usage);
      for (const call of answer.tool_calls) {
        calls.delete(call.id);
        results.delete(call.id);
      }
    }
  }
  const open = [...calls].filter((id) => !results.has(id));
  return { answer, results, open, has_new_message, usage };
}

/** Returns the tools that the searches of a turn have found, read from its tape. */
export function findDiscoveredTools(entries: readonly Entry[], first_entry_id: number): Set<string> {
  const searches = new Set<Json | undefined>();
  const names = new Set<string>();
  for (const { id, kind, payload, meta } of entries) {
    if (Number(meta.copy_of ?? id) < first_entry_id) continue;
    if (kind === "tool_call" && payload.name === SEARCH_TOOL) searches.add(payload.id);
    if (kind !== "tool_result" || !searches.has(payload.tool_call_id)) continue;
    const display = isObject(payload.envelope) ? payload.envelope.display : undefined;
    const data = isObject(display) ? display.data : undefined;
    for (const tool of isObject(data) && Array.isArray(data.tools) ? data.tools : [])
      if (isObject(tool) && typeof tool.name === "string") names.add(tool.name);
  }
  return names;
}

/** Returns the names of the tools that a turn called and that were refused because `allows` excludes them. */
export function findForbiddenTools(
  entries: readonly Entry[],
  first_entry_id: number,
  allows: (tool: string) => boolean,
): string[] {
  const names = new Map<string, string>();
  const forbidden: string[] = [];
  for (const { id, kind, payload, meta } of entries) {
    if (Number(meta.copy_of ?? id) < first_entry_id) continue;
    if (kind === "tool_call") names.set(textOf(payload.id), textOf(payload.name));
    if (kind !== "event" || payload.name !== "tool.error" || !isObject(payload.data)) continue;
    const name = names.get(textOf(payload.data.id));
    if (name !== undefined && payload.data.kind === "rejected" && !allows(name)) forbidden.push(name);
  }
  return forbidden;
}

function toResult({ ok, envelope }: JsonObject, { yield_to_user }: JsonObject): CallResult {
  const brief = isObject(envelope) ? textOf(envelope.brief) : "";
  return { ok: ok === true, brief, ...(yield_to_user === true ? { yields: true } : {}) };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
