/** How far a turn had come, read from its tape alone: what the model answered last, and what became of its calls. */
import {
  type AgentLoopState,
  type BusPayload,
  type Entry,
  isObject,
  type Json,
  type JsonObject,
  type TokenUsage,
} from "@backplane/contract";
import { answerOf, type ModelAnswer } from "../models/call-model.ts";

type Result = Pick<AgentLoopState["tool_results"][number], "ok" | "brief"> & {
  /** The tool gave the turn back to the user. */
  yields?: true;
};

export interface Progress {
  /** Null: the model is to be asked. */
  answer: ModelAnswer | null;
  /** Of the answer's own calls, by the id of the call: some models count theirs from zero in every answer. */
  results: ReadonlyMap<string, Result>;
  /** Calls on the tape without an outcome. */
  open: string[];
  /** A user spoke after the model was last asked. */
  steered: boolean;
  usage: TokenUsage[];
}

/** An answer is used up by the message that it became; what is older than the turn is another turn's. */
export function progressOf(entries: readonly Entry[], started_at: string): Progress {
  const results = new Map<string, Result>();
  const usage: TokenUsage[] = [];
  const calls = new Set<string>();
  let answer: ModelAnswer | null = null;
  let steered = false;
  for (const { kind, payload, meta, date } of entries) {
    if (kind === "tool_call") {
      calls.add(textOf(payload.id));
      results.delete(textOf(payload.id));
      // Its answer was not kept. Its result is in the history, so the model is asked again.
      if (meta.step !== answer?.step) answer = null;
    } else if (kind === "tool_result") {
      results.set(textOf(payload.tool_call_id), resultOf(payload, meta));
    } else if (kind === "message") {
      steered = payload.role === "user";
      if (steered) continue;
      answer = null;
      calls.clear();
    } else if (kind === "event" && isObject(payload.data)) {
      const { name, data } = payload;
      if (name === "tool.error") results.set(textOf(data.id), { ok: false, brief: textOf(data.brief) });
      else if (name === "llm.call.request") steered = false;
      if (name !== "llm.call.response" || date < started_at) continue;
      const response = data as unknown as BusPayload<"llm.call.response">;
      answer = answerOf(textOf(data.request_id), { payload: response });
      usage.push(answer.usage);
      for (const { id } of answer.tool_calls) {
        calls.delete(id);
        results.delete(id);
      }
    }
  }
  const open = [...calls].filter((id) => !results.has(id));
  return { answer, results, open, steered, usage };
}

function resultOf({ ok, envelope }: JsonObject, { yield_to_user }: JsonObject): Result {
  const brief = isObject(envelope) ? textOf(envelope.brief) : "";
  return { ok: ok === true, brief, ...(yield_to_user === true ? { yields: true } : {}) };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
