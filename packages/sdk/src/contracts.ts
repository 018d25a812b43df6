/** The bodies of the four operations and of a harness's requests, as authors see them, with the wire's field names. */
import type { ContentBlock, Json, JsonObject, SemanticEventType } from "@backplane/contract";

/** A tool's complete answer, for a tool whose text differs from its structured output. */
export interface ToolAnswer<Output = Json> {
  content: ContentBlock[];
  structured_output?: Output;
  is_error?: boolean;
  retryable?: boolean;
  /** A short status for people who watch, such as "truncated". */
  status?: string;
  /** Ends the turn with this result. */
  yield_to_user?: boolean;
}

export interface HookEvent<Type extends string = SemanticEventType> {
  id?: string;
  type: Type;
  occurred_at: string;
  subject: { kind: string; id: string };
  summary: JsonObject;
  /** The event is an example (`hook test`) or was sent with a direct call; it did not happen. */
  test?: true;
}

export interface CompactRequest {
  compaction_id: string;
  source: {
    chain_id: string;
    projection: {
      transport: string;
      blocks?: JsonObject[];
      pinned_items?: Json[];
      token_estimate?: number;
      [key: string]: Json | undefined;
    };
  };
  target: { max_input_tokens?: number; target_model?: string; [key: string]: Json | undefined };
  policy: JsonObject;
}

export interface SeedBlock {
  kind: string;
  content: ContentBlock[];
  [key: string]: Json | ContentBlock[] | undefined;
}

export interface CompactAnswer {
  seed_blocks: SeedBlock[];
  summary?: { text: string };
  diagnostics?: JsonObject;
}

export interface HarnessRequest {
  mode: "start" | "resume";
  target: { session_id?: string; chain_id?: string; execution_id?: string };
  trigger: { type: string; input?: ContentBlock[]; [key: string]: Json | ContentBlock[] | undefined };
  policy: {
    max_depth?: number;
    max_child_runs?: number;
    max_steps?: number;
    max_compactions?: number;
    max_time_ms?: number;
    allow_compaction?: boolean;
    [key: string]: Json | undefined;
  };
  /** With mode `resume` and the fidelity lossless or checkpoint: the last checkpoint. */
  checkpoint?: Checkpoint;
  /** With mode `resume` and the fidelity prompt_replay: the conversation so far. */
  chain?: { chain_id: string; blocks: JsonObject[] };
  /** With mode `resume` and the fidelity summary_reseed: the text that the new chain begins with. */
  summary?: { text: string };
}

/** A run that a harness starts, on the session of its target or on another one. */
export interface ChildRunRequest {
  session_id: string;
  input: { text: string; attachments?: JsonObject[] };
  strategy?: string;
}

export interface ChildRun {
  id: string;
  session_id: string;
  status: "running" | "completed" | "failed" | "cancelled";
  output: { content: string; entry_id: number } | null;
  error: { code: string; message: string } | null;
}

/** An action in the sandbox for which the agent of a hosted harness needs permission. */
export interface AgentAction {
  agent: string;
  /** The kind of action, such as `command` or `edit`. */
  action: string;
  /** The command, or the paths that change. */
  target: string;
  details?: JsonObject;
}

export interface AgentPermission {
  allowed: boolean;
  /** Why the action is not allowed; empty if it is. */
  reason: string;
}

export interface Checkpoint {
  kind: string;
  data: Json;
}

export interface HarnessAnswer {
  checkpoint?: Checkpoint;
  summary?: { text: string };
  artifacts?: JsonObject[];
}
