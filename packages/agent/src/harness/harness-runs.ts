/**
 * Runs of harnesses, started through the API. The run, its message, the call and the execution are written in one
 * transaction, and the run and its call end in one transaction. The run does not occupy the session, because the
 * harness starts turns there.
 */

import {
  attachmentToBlock,
  BackplaneError,
  type JsonObject,
  type Run,
  tokenUsage,
} from "@backplane/contract";
import { type Door, invoke } from "@backplane/door";
import type {
  AgentRuns,
  AppendedEntries,
  Caller,
  HarnessStart,
  IdempotencyClaim,
  Kernel,
  RunRow,
  RunTicket,
  SessionKey,
  UserMessage,
} from "@backplane/ports";
import { DEFAULT_WORKSPACE, type Persister, type Sessions } from "@backplane/session";
import type { ActiveTurns } from "../loop/active-turns.ts";
import type { Loop } from "../loop/loop.ts";
import { buildRunRecords } from "../loop/run-record.ts";
import { executionOf } from "../loop/run-turn.ts";
import { isTarget } from "./session-access.ts";

export interface HarnessRunDeps {
  door: Door;
  invocations: Pick<Kernel["invocations"], "cancel">;
  persister: Persister;
  sessions: Sessions;
  loop: Loop;
  turns: ActiveTurns;
}

export interface HarnessRuns {
  start(
    caller: Caller,
    key: SessionKey,
    message: UserMessage,
    harness: HarnessStart,
    once: IdempotencyClaim | undefined,
  ): Promise<RunTicket>;
  getExecution: AgentRuns["getExecution"];
  cancel(caller: Caller, run: Run & { harness: NonNullable<Run["harness"]> }): Promise<Run>;
  /** Stops the turns that a harness has started. Called when the harness failed or was cancelled. */
  stopChildren(execution_id: string): void;
}

export function createHarnessRuns(deps: HarnessRunDeps): HarnessRuns {
  const { door, persister, sessions, loop, turns, invocations } = deps;
  const { store, ids, clock, node_id } = door.deps;

  async function readRun(scope: Caller["scope"], id: string): Promise<Run> {
    const run = await door.store_wait.run("a run", () => store.runs.get(scope, id));
    if (run === null) throw new BackplaneError("run.not_found");
    return run;
  }

  return {
    async start(caller, key, message, { execution_id, policy, timeout_ms, ...target }, once) {
      if (execution_id !== undefined) await requireSessionOfExecution(key, execution_id);
      await sessions.open(key);
      const run = buildRun(caller, key, message);
      const prepared = loop.prepareMessage(key, message);
      let written: AppendedEntries | null = null;
      const ticket = await invoke(door, {
        caller: { ...caller, scope: key.scope },
        body: {
          ...target,
          input: buildInput(key, message, execution_id, policy),
          ...(timeout_ms === undefined ? {} : { timeout_ms }),
        },
        ...(once === undefined
          ? {}
          : { once: { ...once, response_fields: { event_id: prepared.event_id } } }),
        harness_run: {
          run_id: run.id,
          workspace: key.workspace,
          async write(row, opening) {
            const { id: invocation_id, execution_id, export_id } = row;
            run.harness = { execution_id, invocation_id, export_id };
            run.strategy = `harness:${export_id}`;
            run.trace_id = row.trace_id;
            run.chain_id = row.chain_id ?? "";
            const started = buildRunRecords(door.deps, "run.started", run, caller).events ?? [];
            const records = { ...opening.records, events: [...(opening.records.events ?? []), ...started] };
            const run_record = { row: run, own_entries: prepared.items.length };
            written = await persister.appendInTransaction(key, prepared.items, (tape) =>
              store.invocations.open(row, { ...opening, records, run: run_record, tape }),
            );
          },
        },
      });
      const { chain_id, first_id, last_id } = written!;
      run.chain_id = chain_id;
      run.first_entry_id = first_id;
      prepared.publish();
      const { node_id: _node, fence: _fence, joins: _joins, ...public_run } = run;
      const settled = ticket.settled.then(() => readRun(key.scope, run.id).catch(() => public_run));
      return { run: public_run, entry_id: last_id, settled };
    },
    async getExecution(caller, id) {
      const may_read = caller.delegation === undefined || executionOf(caller) === id;
      const row = may_read ? await store.executions.get(caller.scope, id) : null;
      if (row === null) throw new BackplaneError("execution.not_found");
      const { depth: _depth, starts: _starts, deadline: _deadline, ...execution } = row;
      return execution;
    },
    async cancel(caller, { id, harness, ...scope }) {
      if (executionOf(caller) === harness.execution_id)
        throw new BackplaneError("policy.denied", "A harness may not cancel its own run.");
      const live = door.live.get(harness.invocation_id);
      await invocations.cancel(caller, harness.invocation_id);
      await live?.settled;
      return await readRun(scope, id);
    },
    stopChildren(execution_id) {
      for (const turn of turns.all()) if (executionOf(turn.caller) === execution_id) turn.stop("user");
    },
  };

  async function requireSessionOfExecution(key: SessionKey, execution_id: string): Promise<void> {
    const execution = await store.executions.get(key.scope, execution_id);
    if (execution === null) throw new BackplaneError("execution.not_found");
    const { target } = execution;
    if (isTarget(target, key)) return;
    const origin =
      target.session_id === undefined
        ? "was started without a session"
        : `belongs to ${describeSession(target.session_id, target)}`;
    throw new BackplaneError(
      "request.invalid",
      `The execution ${execution_id} ${origin}, so it cannot be resumed in ${describeSession(key.session_id, key)}.`,
    );
  }

  function buildRun(caller: Caller, key: SessionKey, message: UserMessage): RunRow {
    return {
      id: ids.next("run"),
      ...key.scope,
      workspace: key.workspace,
      session_id: key.session_id,
      chain_id: "",
      first_entry_id: 0,
      parent_run_id: null,
      trigger: "api",
      status: "running",
      strategy: "harness",
      input: message,
      output: null,
      error: null,
      usage: tokenUsage(),
      iterations: 0,
      requested_by: caller.actor,
      ...(caller.channel === undefined ? {} : { channel: caller.channel }),
      started_at: new Date(clock.now()).toISOString(),
      ended_at: null,
      node_id,
      fence: 0,
      joins: 0,
    };
  }
}

function describeSession(
  session_id: string,
  { workspace = DEFAULT_WORKSPACE }: { workspace?: string | undefined },
): string {
  return `session ${session_id}${workspace === DEFAULT_WORKSPACE ? "" : ` of workspace ${workspace}`}`;
}

function buildInput(
  { session_id }: SessionKey,
  { text, attachments = [] }: UserMessage,
  execution_id: string | undefined,
  policy: HarnessStart["policy"],
): JsonObject {
  const trigger = {
    type: "user_request",
    input: [{ type: "text", text }, ...attachments.map(attachmentToBlock)],
  };
  if (execution_id !== undefined) return { mode: "resume", target: { execution_id }, trigger };
  return {
    mode: "start",
    target: { session_id },
    trigger,
    ...(policy === undefined ? {} : { policy: { ...policy } }),
  };
}
