/**
 * Publishes the events of a harness on its session as `x.harness.*`, ends its run in one transaction with its call, and
 * records its summary on the tape as an answer.
 */

import {
  type BusEvent,
  codeOf,
  eventText,
  type InvocationEvent,
  isObject,
  type Json,
  type JsonObject,
  type Run,
  type SemanticEventType,
  tokenUsage,
} from "@backplane/contract";
import type {
  AppendedEntries,
  ChangeRecords,
  Clock,
  HarnessSettlement,
  InvocationRow,
  Logger,
  NewEvent,
  RunEnd,
  SessionKey,
  Settlement,
  Store,
  TapeWrite,
} from "@backplane/ports";
import type { KernelPort } from "../bus/bus-port.ts";
import { DEFAULT_WORKSPACE, type LiveSessions } from "../sessions/live-sessions.ts";
import type { Persister } from "../sessions/persister.ts";
import { toTapedEntry } from "../sessions/taped-entry.ts";

export interface HarnessTape {
  /** Publishes the start of an attempt, and reserves the session id until `settle` or `release`. */
  publishStart(row: InvocationRow, mode: string): void;
  publishEvent(row: InvocationRow, event: InvocationEvent): void;
  /** Resolves to false if another node settled the row. */
  settle(final: InvocationRow, end: Settlement, records: ChangeRecords): Promise<boolean>;
  /** Frees the session id of a call that another gateway continues. */
  release(row: InvocationRow): void;
}

export interface HarnessTapeDeps {
  store: Pick<Store, "invocations">;
  persister: Persister;
  live: LiveSessions;
  port: KernelPort;
  /** Publishes events of the kind x.harness.*. */
  harness_port: KernelPort;
  ids: { next(noun: "event"): string };
  clock: Pick<Clock, "now">;
  log: Pick<Logger, "warn">;
  onSettled: (row: InvocationRow) => void;
}

export function createHarnessTape(deps: HarnessTapeDeps): HarnessTape {
  const { store, persister, live, port, harness_port, log } = deps;
  const acquired = new Map<string, () => void>();

  const publish = (row: InvocationRow, kind: "started" | "event" | "ended", payload: JsonObject) => {
    const key = keyOf(row);
    if (key === null) return false;
    const ids: JsonObject = { execution_id: row.execution_id, invocation_id: row.id };
    if (row.harness_run !== null) ids.run_id = row.run_id;
    const to = { session_id: key.session_id, scope: key.scope };
    return harness_port.tryPublish(`x.harness.${kind}` as string, { ...ids, ...payload }, to) !== null;
  };
  const release = (invocation_id: string) => {
    acquired.get(invocation_id)?.();
    acquired.delete(invocation_id);
  };
  // The workspace of an event is looked up at its delivery, so the session id stays reserved until the last event was
  // delivered. All handlers of an event start in the same tick.
  harness_port.subscribe("x.harness.ended", ({ payload }) => {
    queueMicrotask(() => release(payload.invocation_id as string));
  });

  return {
    publishStart(row, mode) {
      const key = keyOf(row);
      if (key === null) return;
      try {
        if (!acquired.has(row.id)) acquired.set(row.id, live.acquire(key));
      } catch (error) {
        // Another workspace uses the same session id on this node, so events could reach the wrong tape.
        log.warn({ err: error, invocation_id: row.id }, "the events of a harness are not published");
        return;
      }
      publish(row, "started", { mode, export_id: row.export_id });
    },
    publishEvent(row, { event }) {
      if (acquired.has(row.id)) publish(row, "event", { event: event as JsonObject });
    },
    async settle(final, end, records) {
      const { invocations } = store;
      const harness: HarnessSettlement = {
        execution_id: final.execution_id,
        checkpoint: end.status === "succeeded" ? checkpointOf(end.result) : null,
        run: null,
      };
      const write = (tape: TapeWrite | null, run: RunEnd | null) =>
        invocations.settleHarness(final.id, final.fence, end, addRunEvent(deps, final, run, records), {
          ...harness,
          run: run === null ? null : { id: final.run_id!, end: run, tape },
        });
      const key = final.harness_run === null ? null : keyOf(final);
      const run = key === null ? null : toRunEnd(final, end);
      // Only the summary of a completed run becomes part of the conversation, and only if it is not empty.
      const has_answer = run !== null && run.status === "completed" && run.output?.content !== "";
      const settled = key === null || !has_answer ? await write(null, run) : await settleRun(key, run, write);
      if (settled === null) return false;
      const is_published = publish(final, "ended", {
        status: end.status,
        ...(end.error === null ? {} : { code: end.error.code }),
      });
      if (!is_published) release(final.id);
      deps.onSettled(final);
      return true;
    },
    release: ({ id }) => release(id),
  };

  async function settleRun(
    key: SessionKey,
    run: RunEnd,
    write: (tape: TapeWrite | null, run: RunEnd) => Promise<{ entries: AppendedEntries | null } | null>,
  ): Promise<unknown> {
    const payload = { content: run.output?.content ?? "", tool_calls: [], status: run.status };
    const prepared = port.prepare("assistant.message.done", payload, {
      session_id: key.session_id,
      scope: key.scope,
    });
    let settled: { entries: AppendedEntries | null } | null = null;
    try {
      const written = await persister.appendInTransaction(key, [itemOf(prepared.event)], async (tape) => {
        settled = await write(tape, run);
        return settled?.entries ?? null;
      });
      if (written !== null) prepared.publish();
    } catch (error) {
      if (codeOf(error) !== "session.not_found") throw error;
      log.warn(
        { session_id: key.session_id },
        "the session of a harness was deleted; its run ends without an entry on the tape",
      );
      settled = await write(null, run);
    }
    return settled;
  }
}

const RUN_STATUS = {
  succeeded: "completed",
  cancelled: "cancelled",
  failed: "failed",
  retryable_failure: "failed",
} as const satisfies Record<Settlement["status"], Run["status"]>;

const RUN_EVENT = {
  completed: "run.completed",
  failed: "run.failed",
  cancelled: "run.cancelled",
} as const satisfies Record<Exclude<Run["status"], "running">, SemanticEventType>;

function toRunEnd(final: InvocationRow, end: Settlement): RunEnd {
  const { error } = end;
  return {
    status: RUN_STATUS[end.status],
    output: { content: summaryOf(end.result), entry_id: 0 },
    error: error === null ? null : { code: error.code, message: error.message },
    // The store adds the usage of calls to the model endpoints. The model calls of child runs belong to those runs.
    usage: tokenUsage(),
    iterations: 0,
    ended_at: final.ended_at ?? end.ended_at,
  };
}

function addRunEvent(
  deps: Pick<HarnessTapeDeps, "ids" | "clock">,
  row: InvocationRow,
  end: RunEnd | null,
  records: ChangeRecords,
): ChangeRecords {
  if (end === null || end.status === "running") return records;
  const { session_id, chain_id, run_id, trace_id } = row;
  const summary: JsonObject = {
    task: eventText(taskOf(row.input)),
    output: eventText(end.output?.content ?? ""),
    session_id,
    workspace: row.harness_run!.workspace,
    status: end.status,
    trigger: "api",
    tokens: end.usage.total,
  };
  if (end.error !== null) {
    summary.code = end.error.code;
    summary.error = eventText(end.error.message);
  }
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type: RUN_EVENT[end.status],
    scope: { org_id: row.org_id, project_id: row.project_id },
    occurred_at: deps.clock.now(),
    subject: { kind: "run", id: run_id! },
    summary,
    ids: { session_id: session_id!, run_id: run_id!, trace_id, ...(chain_id === null ? {} : { chain_id }) },
  };
  return { ...records, events: [...(records.events ?? []), event] };
}

/** The door has checked the shape of the result (accept.ts). */
function checkpointOf(result: Json | null): HarnessSettlement["checkpoint"] {
  const checkpoint = isObject(result) ? result.checkpoint : undefined;
  return (checkpoint ?? null) as HarnessSettlement["checkpoint"];
}

function taskOf(input: Json): string {
  const trigger = isObject(input) ? input.trigger : undefined;
  const blocks = isObject(trigger) && Array.isArray(trigger.input) ? trigger.input : [];
  return blocks
    .flatMap((block) => (isObject(block) && typeof block.text === "string" ? block.text : []))
    .join("\n");
}

function summaryOf(result: Json | null): string {
  const summary = isObject(result) ? result.summary : undefined;
  return isObject(summary) && typeof summary.text === "string" ? summary.text : "";
}

function keyOf({ org_id, project_id, session_id, harness_run }: InvocationRow): SessionKey | null {
  if (session_id === null) return null;
  const workspace = harness_run?.workspace ?? DEFAULT_WORKSPACE;
  return { scope: { org_id, project_id }, workspace, session_id };
}

function itemOf(event: BusEvent) {
  return { entry: toTapedEntry(event)!.entry, event };
}
