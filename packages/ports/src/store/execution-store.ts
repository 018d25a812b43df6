/**
 * Harness executions. An execution is written with its first call and outlives it: a call that resumes it gets the last
 * checkpoint. Its counters are changed by conditional updates, so that a limit holds however many gateways count
 * concurrently.
 */
import type { Execution, HarnessCheckpoint, HarnessPolicy, JsonObject } from "@backplane/contract";
import type { Scope } from "../scope/scope.ts";

export interface NewExecution {
  id: string;
  scope: Scope;
  invocation_id: string;
  run_id: string | null;
  export_id: string;
  binding_id: string;
  /** The depth of the harness call; the depth of a child run is counted from here. */
  depth: number;
  target: Execution["target"];
  trigger: JsonObject;
  policy: Required<Omit<HarnessPolicy, "max_time_ms">> & Pick<HarnessPolicy, "max_time_ms">;
  /** Milliseconds since the epoch. */
  deadline: number | null;
  /** 1, or 0 if the call awaits approval. */
  starts: number;
}

export interface ExecutionRow extends Execution {
  depth: number;
  /** How often the harness was started since its last checkpoint. */
  starts: number;
  deadline: number | null;
}

export interface ExecutionStore {
  get(scope: Scope, id: string): Promise<ExecutionRow | null>;
  /**
   * Stores the checkpoint of a running call and clears `starts`. Resolves to false, without writing anything, if the
   * call has ended or another gateway owns it.
   */
  saveCheckpoint(
    id: string,
    call: { invocation_id: string; fence: number },
    checkpoint: HarnessCheckpoint,
  ): Promise<boolean>;
  /** Counts another start of the harness. Resolves to null if the call no longer owns the execution. */
  countStart(id: string, invocation_id: string): Promise<ExecutionRow | null>;
  /** Stores the chain on which the harness continues. */
  setChain(id: string, invocation_id: string, chain_id: string): Promise<boolean>;
  /** Counts one model call. Throws `harness.limit` if the execution has ended or its limit is reached. */
  countStep(id: string): Promise<void>;
  /**
   * Throws `harness.limit` if the execution has ended or has no compaction left. `SessionStore.compact` counts a
   * compaction, and checks the limit again.
   */
  requireCompaction(id: string): Promise<void>;
}
