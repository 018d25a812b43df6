/**
 * One turn of the agent loop as values. The kernel defines the order (loop.order): decide, query the memory if the
 * strategy requests it, call the model, run the tools, decide again, until the strategy decides `done`. A strategy
 * chooses the content: which model, which tools, when to query the memory, when to stop.
 */
import type { JsonObject } from "../values/json.ts";
import type { TokenUsage, ToolCallRequest } from "./llm.ts";

export interface MemoryEntry {
  id?: string;
  text: string;
  /** Set for a query result; a higher score is a better match. */
  score?: number;
  meta?: JsonObject;
  at?: string;
  /**
   * The memory plugin and the kind of its store. Set by the kernel for a query result; in a write they select the
   * stores that receive the entry.
   */
  source?: string;
  store?: "short-term" | "long-term";
}

/** `state` of strategy.decide.request. */
export interface AgentLoopState {
  session_id: string;
  run_id: string;
  /** Model calls of this turn so far. */
  iteration: number;
  /** The last event of the turn. */
  phase: "start" | "memory" | "llm" | "tool";
  input: { text: string; attachments?: JsonObject[] };
  last_response: { text: string; tool_calls: ToolCallRequest[]; usage: TokenUsage } | null;
  /** The results of the last step, in call order. */
  tool_results: { id: string; name: string; ok: boolean; brief: string }[];
  memory: MemoryEntry[] | null;
  /** Whether a memory plugin is available. */
  has_memory: boolean;
  /** Number of messages in the model's context. */
  history: number;
  /** Names of tools that may be offered. */
  tools: string[];
  /** The skills that the model can read with the tool `skill`. */
  skills: { name: string; description: string }[];
}

/** strategy.decide.response without its request_id. */
export type Decision =
  | {
      next: "llm";
      /** Default: the active instance and its configured model. */
      provider?: string;
      model?: string;
      system?: string;
      /** Names from `state.tools`; if absent, all are offered. */
      tools?: string[];
      params?: JsonObject;
    }
  | { next: "tool" }
  | {
      next: "memory";
      query: string;
      k?: number;
      /** Kinds of stores or names of memory plugins; if absent, the kernel chooses by the age of the session. */
      stores?: string[];
    }
  | { next: "done"; content?: string; write?: MemoryEntry };

/** Valid transitions; any other decision ends the turn with an error of the strategy. */
export const NEXT_STEPS: Record<AgentLoopState["phase"], readonly Decision["next"][]> = {
  start: ["memory", "llm", "done"],
  memory: ["llm", "done"],
  llm: ["tool", "llm", "done"],
  tool: ["memory", "llm", "done"],
};

export const LOOP_LIMITS = {
  /** Model calls in one turn. */
  iterations: 25,
  decide_ms: 30_000,
  memory_ms: 10_000,
  /**
   * Below this age, a session queries its short-term memory first; older sessions query their long-term memory first.
   */
  young_session_ms: 24 * 3_600_000,
  /** The time from the request to the end of the answer. */
  model_ms: 600_000,
  tools_per_step: 64,
  default_strategy: "react",
} as const;

export const SUBAGENT_LIMITS = { depth: 5, wall_ms: 300_000, steps: 20 } as const;

/** Automatic compaction begins at the fraction `threshold` of the window and aims for the fraction `target`. */
export const COMPACTION_LIMITS = {
  threshold: 0.8,
  target: 0.4,
  tries: 3,
  /** The default if neither the instance nor the model states its window. */
  window_tokens: 128_000,
} as const;

export const FANOUT_LIMITS = {
  heartbeat_ms: 60_000,
  reap_ms: 5_000,
  /** Bytes buffered for a connection before it is closed. */
  buffered_bytes: 4 * 1024 * 1024,
  /** Size of the unfinished answer that is sent to a client that attaches during a turn. */
  partial_bytes: 1024 * 1024,
} as const;
