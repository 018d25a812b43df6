/**
 * Records the end of a turn in one transaction: the row of the run, the entry of the answer and the outbox event. The
 * answer is published on the bus afterwards. Also builds the outbox events of every run.
 */

import {
  type BackplaneError,
  definedFields,
  eventText,
  type JsonObject,
  type Run,
  type SemanticEventType,
  type ToolCallRequest,
} from "@backplane/contract";
import type { StoreWait } from "@backplane/door";
import {
  type Caller,
  type ChangeCause,
  type ChangeRecords,
  type Clock,
  causeOf,
  type Logger,
  type NewEvent,
  type RunEnd,
  type RunRow,
  type Store,
} from "@backplane/ports";
import { type KernelPort, type Persister, type TapeItem, toTapedEntry } from "@backplane/session";
import type { TurnEnd } from "./run-turn.ts";
import type { Turn } from "./turn.ts";

export interface RecordDeps {
  port: KernelPort;
  persister: Persister;
  store: Pick<Store, "runs">;
  ids: { next(noun: "event"): string };
  clock: Clock;
  log: Logger;
  store_wait: StoreWait;
}

const INITIAL_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5_000;

/**
 * `lost`: another gateway holds the turn. `joined`: another gateway added a message that this turn has to
 * answer first.
 */
export type FinishedTurn =
  | { state: "ended"; run: Run }
  | { state: "lost" }
  | { state: "joined"; joins: number };

/** Never rejects. The write is retried until the store accepts it. */
export async function finishTurn(
  deps: RecordDeps,
  turn: Turn,
  end: TurnEnd | null,
  failure: BackplaneError | null,
): Promise<FinishedTurn> {
  const { port, persister, store, clock, log } = deps;
  const status = toEndStatus(turn, failure);
  const error = status === "completed" ? null : toRunError(turn, failure);
  if (error !== null && status === "failed") {
    const detail = { run_id: turn.run.id, session_id: turn.key.session_id, code: error.code };
    port.tryPublish("kernel.error", { source: "kernel-loop", message: error.message, detail }, turn.to);
  }
  const content = end?.content ?? turn.partial;
  const extra = { run_id: turn.run.id, status, ...(error === null ? {} : { error }) };
  for (let pause = INITIAL_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    const { item, publish } = buildAnswerItem(port, turn, content, end?.tool_calls ?? [], extra);
    const ended: RunEnd = {
      status,
      error,
      output: { content, entry_id: 0 },
      usage: turn.usage,
      iterations: turn.iterations,
      ended_at: new Date(clock.now()).toISOString(),
    };
    try {
      const records = buildRunRecords(deps, EVENT_BY_STATUS[status], { ...turn.run, ...ended }, turn.caller);
      let joins: number | null = null;
      let total: Pick<Run, "usage" | "iterations"> = ended;
      const ids = await persister.appendInTransaction(turn.key, [item], async (tape) => {
        const written = await store.runs.end(turn.key.scope, turn.hold, turn.joins, ended, tape, records);
        if (written === null) return null;
        if ("last_id" in written) {
          total = written;
          return written;
        }
        joins = written.joins;
        return null;
      });
      if (joins !== null) return { state: "joined", joins };
      if (ids === null) return { state: "lost" };
      publish();
      return {
        state: "ended",
        run: toPublicRun(
          turn.run,
          { ...ended, usage: total.usage, iterations: total.iterations },
          content,
          ids.last_id,
        ),
      };
    } catch (thrown) {
      log.error({ err: thrown, run_id: turn.run.id }, "the end of a turn could not be recorded; retrying");
      await new Promise<void>((resolve) => void clock.after(pause, resolve));
    }
  }
}

function toPublicRun(row: RunRow, ended: RunEnd, content: string, entry_id: number): Run {
  const { node_id: _node, fence: _fence, joins: _joins, subagent: _subagent, ...run } = row;
  return { ...run, ...ended, output: { content, entry_id } };
}

/**
 * Records an answer in the middle of a turn, when the user sent another message before the turn could end.
 */
export async function recordAnswer(deps: RecordDeps, turn: Turn, end: TurnEnd): Promise<void> {
  const extra = { run_id: turn.run.id, status: "running" };
  const { item, publish } = buildAnswerItem(deps.port, turn, end.content, end.tool_calls, extra);
  await deps.store_wait.run("a turn", () => deps.persister.append(turn.key, [item]), turn.signal);
  publish();
}

function buildAnswerItem(
  port: KernelPort,
  turn: Turn,
  content: string,
  tool_calls: ToolCallRequest[],
  extra: JsonObject,
): { item: TapeItem; publish: () => void } {
  const calls = tool_calls.map((call) => ({ ...call }));
  const prepared = port.prepare("assistant.message.done", { content, tool_calls: calls, ...extra }, turn.to);
  return {
    item: { entry: toTapedEntry(prepared.event)!.entry, event: prepared.event },
    publish: prepared.publish,
  };
}

export function buildRunRecords(
  deps: Pick<RecordDeps, "ids" | "clock">,
  type: SemanticEventType,
  run: RunRow,
  caller: Pick<Caller, "delegation">,
): ChangeRecords {
  const { org_id, project_id, session_id, workspace, status, trigger } = run;
  const task = eventText(run.input.text);
  const output = eventText(run.output?.content ?? "");
  const summary: JsonObject = { task, output, session_id, workspace, status, trigger };
  if (run.parent_run_id !== null) summary.parent_run_id = run.parent_run_id;
  if (run.error !== null) {
    summary.code = run.error.code;
    summary.error = eventText(run.error.message);
  }
  if (run.ended_at !== null) summary.tokens = run.usage.total;
  const { from_hook, trace_id } = causeOfTurn(caller, run);
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type,
    scope: { org_id, project_id },
    occurred_at: deps.clock.now(),
    subject: { kind: "run", id: run.id },
    summary,
    ids: { session_id, run_id: run.id, ...definedFields({ chain_id: run.chain_id || undefined, trace_id }) },
  };
  if (from_hook === true) event.from_hook = true;
  return { events: [event] };
}

/** The cause of the changes that a turn makes. */
export function causeOfTurn(
  caller: Pick<Caller, "delegation">,
  { id, trace_id }: Pick<RunRow, "id" | "trace_id">,
): ChangeCause {
  return { ...causeOf(caller), run_id: id, ...(trace_id === undefined ? {} : { trace_id }) };
}

const EVENT_BY_STATUS = {
  completed: "run.completed",
  failed: "run.failed",
  cancelled: "run.cancelled",
} as const satisfies Record<Exclude<Run["status"], "running">, SemanticEventType>;

function toEndStatus(turn: Turn, failure: BackplaneError | null): keyof typeof EVENT_BY_STATUS {
  if (turn.stopped === "user") return "cancelled";
  return turn.stopped !== null || failure !== null ? "failed" : "completed";
}

function toRunError(turn: Turn, failure: BackplaneError | null): NonNullable<Run["error"]> {
  switch (turn.stopped) {
    case "user":
      return { code: "cancelled", message: "The turn was interrupted." };
    case "wall":
      return { code: "timeout", message: "The turn exceeded its time limit." };
    case "lost":
      return { code: "run.taken_over", message: "Another gateway has taken over this turn." };
    case "shutdown":
      return { code: "gateway_stopping", message: "The gateway stopped during this turn." };
    case "revoked":
      return { code: turn.revocation!.code, message: turn.revocation!.message };
    case null:
      return { code: failure!.code, message: failure!.message };
  }
}
