/**
 * One turn of the agent loop as values. The order is the kernel's (loop.order): decide, memory if asked for, model,
 * tools, decide again, until the strategy says done. A strategy chooses content: which model, which tools, when to
 * look into memory, when to stop.
 */
import type { JsonObject } from "../values/json.ts";
import type { TokenUsage, ToolCallRequest } from "./llm.ts";

export interface MemoryEntry {
  id?: string;
  text: string;
  /** Of a hit: higher is nearer. */
  score?: number;
  meta?: JsonObject;
  at?: string;
}

/** `state` of strategy.decide.request. */
export interface AgentLoopState {
  session_id: string;
  run_id: string;
  /** Model calls of this turn so far. */
  iteration: number;
  /** What has just happened. */
  phase: "start" | "memory" | "llm" | "tool";
  input: { text: string; attachments?: JsonObject[] };
  last_response: { text: string; tool_calls: ToolCallRequest[]; usage: TokenUsage } | null;
  /** Of the last step, in call order. */
  tool_results: { id: string; name: string; ok: boolean; brief: string }[];
  memory: MemoryEntry[] | null;
  /** Whether there is any memory to ask. */
  has_memory: boolean;
  /** Messages that the model will be shown. */
  history: number;
  /** The names that may be offered. */
  tools: string[];
  /** What the model can read with the tool `skill`, by name. */
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
      /** Names out of `state.tools`; left out, all are offered. */
      tools?: string[];
      params?: JsonObject;
    }
  | { next: "tool" }
  | { next: "memory"; query: string; k?: number }
  | { next: "done"; content?: string; write?: MemoryEntry };

/** What may follow what; anything else ends the turn as the strategy's fault. */
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
  /** From the request to the end of the answer. */
  model_ms: 600_000,
  tools_per_step: 64,
  default_strategy: "react",
} as const;

export const SUBAGENT_LIMITS = { depth: 5, wall_ms: 300_000, steps: 20 } as const;

/** Automatic compaction: begins at `threshold` of the window and aims at `target` of it. */
export const COMPACTION_LIMITS = {
  threshold: 0.8,
  target: 0.4,
  tries: 3,
  /** Where neither the instance nor the model says how much it takes. */
  window_tokens: 128_000,
} as const;

export const FANOUT_LIMITS = {
  heartbeat_ms: 60_000,
  reap_ms: 5_000,
  /** What one connection may have waiting before it is cut off. */
  buffered_bytes: 4 * 1024 * 1024,
  /** The unfinished answer that a client joining in the middle is given. */
  partial_bytes: 1024 * 1024,
} as const;
