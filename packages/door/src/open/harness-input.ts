/** The input of a harness call: checked, and completed with the limits that apply to its execution. */

import {
  BackplaneError,
  type Execution,
  HARNESS_LIMITS,
  type HarnessInput,
  type HarnessPolicy,
  type Json,
  type JsonObject,
  type PluginExport,
} from "@backplane/contract";
import { HarnessInputSchema } from "@backplane/contract/schema";
import type { Caller, NewExecution, SchemaIssue, Store } from "@backplane/ports";
import { DEFAULT_WORKSPACE } from "@backplane/session";
import { authorizeSessionIds, type SessionIdsDeps } from "../authority/session-ids.ts";
import type { ExecutionPlan } from "../calls/live-calls.ts";

export type HarnessDeclaration = Extract<PluginExport, { kind: "harness" }>;

export function findHarnessIssues(input: Json): readonly SchemaIssue[] {
  const parsed = HarnessInputSchema.safeParse(input);
  if (!parsed.success) {
    return parsed.error.issues.map(({ path, message }) => ({
      path: path.map((step) => `/${String(step)}`).join(""),
      message,
    }));
  }
  const { mode = "start", target = {} } = parsed.data;
  if (mode === "resume" && target.execution_id === undefined)
    return [{ path: "/target/execution_id", message: "is missing; it is the id of the execution to resume" }];
  if (mode === "start" && target.execution_id !== undefined)
    return [{ path: "/target/execution_id", message: "is allowed only with the mode resume" }];
  return [];
}

export interface ExecutionPlanDeps extends SessionIdsDeps {
  store: Pick<Store, "executions" | "sessions" | "runs" | "invocations">;
}

export interface HarnessCallRequest {
  caller: Caller;
  invocation_id: string;
  run_id: string | null;
  export: HarnessDeclaration;
  binding_id: string;
  /** Already checked by findHarnessIssues. */
  input: HarnessInput;
  /** The ids that the request specifies outside its input. */
  call_ids: { session_id?: string | undefined; chain_id?: string | undefined };
  /**
   * Set only if the harness has a run of its own. Its session ids were authorized when that run was accepted, so they are
   * not checked again.
   */
  workspace: string | undefined;
  depth: number;
  now: number;
  newId: () => string;
}

export async function planExecution(
  deps: ExecutionPlanDeps,
  call: HarnessCallRequest,
): Promise<ExecutionPlan> {
  return call.input.mode === "resume" ? await planResume(deps, call) : await planStart(deps, call);
}

async function planStart(deps: ExecutionPlanDeps, call: HarnessCallRequest): Promise<ExecutionPlan> {
  const { caller, input, now } = call;
  const target = await resolveTarget(deps, call);
  const policy = resolvePolicy(call.export, input.policy ?? {});
  const id = call.newId();
  const deadline = policy.max_time_ms === undefined ? null : now + policy.max_time_ms;
  const write: NewExecution = {
    id,
    scope: caller.scope,
    invocation_id: call.invocation_id,
    run_id: call.run_id,
    export_id: call.export.id,
    binding_id: call.binding_id,
    depth: call.depth,
    target,
    trigger: (input.trigger ?? { type: "user_request", input: [] }) as JsonObject,
    policy,
    deadline,
    starts: 1,
  };
  return { id, write, target, deadline };
}

/** The execution keeps its target, its limits and their usage so far; only the trigger may be new. */
async function planResume(deps: ExecutionPlanDeps, call: HarnessCallRequest): Promise<ExecutionPlan> {
  const id = call.input.target!.execution_id!;
  const row = await deps.store.executions.get(call.caller.scope, id);
  if (row === null) throw new BackplaneError("execution.not_found");
  if (row.binding_id !== call.binding_id) {
    throw new BackplaneError(
      "request.invalid",
      `The execution ${id} belongs to the harness ${row.export_id} of ${row.binding_id}, which alone can resume it.`,
    );
  }
  if (row.status === "running")
    throw new BackplaneError("execution.running", undefined, { details: { execution_id: id } });
  if (row.deadline !== null && row.deadline <= call.now) {
    throw new BackplaneError("harness.limit", `The execution ${id} has reached its max_time_ms.`, {
      details: { execution_id: id, limit: "max_time_ms" },
    });
  }
  await authorizeTarget(deps, call, row.target);
  const trigger = (call.input.trigger as JsonObject | undefined) ?? row.trigger;
  return { id, write: { resumes: { ...row, trigger } }, target: row.target, deadline: row.deadline };
}

/** In an existing session, the target is the chain that is the head now, unless the call specifies another one. */
async function resolveTarget(
  deps: ExecutionPlanDeps,
  call: HarnessCallRequest,
): Promise<Execution["target"]> {
  const { caller, call_ids, input } = call;
  const { session_id = call_ids.session_id, chain_id = call_ids.chain_id } = input.target ?? {};
  for (const [name, value] of Object.entries({ session_id, chain_id })) {
    const call_value = call_ids[name as keyof typeof call_ids];
    if (call_value !== undefined && call_value !== value)
      throw new BackplaneError("request.invalid", `The request has two different values for ${name}.`);
  }
  const ids = {
    ...(session_id === undefined ? {} : { session_id }),
    ...(chain_id === undefined ? {} : { chain_id }),
  };
  await authorizeTarget(deps, call, ids);
  if (session_id === undefined) return ids;
  const { workspace = DEFAULT_WORKSPACE } = call;
  const session = await deps.store.sessions.get({ scope: caller.scope, workspace, session_id });
  const head = session === null || chain_id !== undefined ? {} : { chain_id: session.head_chain_id };
  return { ...ids, ...head, workspace };
}

async function authorizeTarget(
  deps: ExecutionPlanDeps,
  { caller, workspace }: HarnessCallRequest,
  { session_id, chain_id }: { session_id?: string | undefined; chain_id?: string | undefined },
): Promise<void> {
  if (workspace !== undefined || session_id === undefined) return;
  await authorizeSessionIds(deps, caller, { session_id, ...(chain_id === undefined ? {} : { chain_id }) });
}

function resolvePolicy(item: HarnessDeclaration, requested: HarnessPolicy): NewExecution["policy"] {
  const { mode, supports } = item.harness;
  const { max_depth, max_child_runs, max_steps, max_compactions } = HARNESS_LIMITS;
  return {
    max_depth: requested.max_depth ?? max_depth.default,
    max_child_runs: mode === "hosted" ? 0 : (requested.max_child_runs ?? max_child_runs.default),
    max_steps: requested.max_steps ?? max_steps.default,
    max_compactions: requested.max_compactions ?? max_compactions.default,
    allow_compaction: (requested.allow_compaction ?? true) && supports.includes("compact"),
    ...(requested.max_time_ms === undefined ? {} : { max_time_ms: requested.max_time_ms }),
  };
}
