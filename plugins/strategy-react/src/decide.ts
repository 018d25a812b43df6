/**
 * ReAct as a pure function of the turn's state: search memory, call the model, run its tool calls, call it again, stop
 * when the model makes no more calls. No other state exists, so a restart during a turn is harmless.
 *
 *   start ──► memory ──► llm ──► tool ──► llm … ──► done (with a note to remember)
 *     └────────────────►┘└─────────────────────────►┘
 */
import type { AgentLoopState, Decision, MemoryEntry } from "@backplane/sdk/kernel";
import type { ReactSettings } from "./settings.ts";
import { shorten } from "./shorten.ts";
import { buildSystemPrompt } from "./system-prompt.ts";

const QUERY_LENGTH = 4_000;
const USER_TEXT_LENGTH = 800;
const ANSWER_LENGTH = 1_600;
/** A model wrote the "user" messages of a sub-agent, so they are not stored as a user's statements. */
const SUB_AGENT = "::agent::";

/** The caller adds the instance and the model. */
export function decide(state: AgentLoopState, settings: ReactSettings): Decision {
  switch (state.phase) {
    case "start":
      if (!state.has_memory || !settings.memory || settings.memory_k === 0 || state.input.text.trim() === "")
        break;
      return { next: "memory", query: shorten(state.input.text, QUERY_LENGTH), k: settings.memory_k };
    case "llm":
      return decideAfterModel(state, settings);
    case "memory":
    case "tool":
      break;
  }
  return decideModelCall(state, settings);
}

function decideModelCall(state: AgentLoopState, settings: ReactSettings): Decision {
  const decision: Decision = {
    next: "llm",
    system: buildSystemPrompt(settings.system_prompt, notesOf(state), state.skills ?? []),
  };
  const allowed = settings.tools;
  if (allowed !== undefined) decision.tools = state.tools.filter((name) => allowed.includes(name));
  if (settings.temperature !== undefined) decision.params = { temperature: settings.temperature };
  return decision;
}

/** Notes of this session are skipped, because the history already contains their text. */
function notesOf({ memory, session_id }: AgentLoopState): MemoryEntry[] {
  return (memory ?? []).filter((note) => note.meta?.session_id !== session_id);
}

function decideAfterModel(state: AgentLoopState, settings: ReactSettings): Decision {
  const answer = state.last_response;
  if (answer !== null && answer.tool_calls.length > 0) return { next: "tool" };
  const text = answer?.text.trim() ?? "";
  const user_text = state.input.text.trim();
  const is_worth_remembering = user_text !== "" && text !== "" && !state.session_id.includes(SUB_AGENT);
  if (!settings.remember || !is_worth_remembering) return { next: "done" };
  return {
    next: "done",
    write: {
      text: `user: ${shorten(user_text, USER_TEXT_LENGTH)}\nassistant: ${shorten(text, ANSWER_LENGTH)}`,
      meta: { session_id: state.session_id, run_id: state.run_id },
    },
  };
}
