/**
 * The one door. Every call to a tool, hook, compactor or harness, from any caller, takes the same steps: open, admit,
 * record, approve, run, settle. Each step takes the branded value of the step before, so code that skips a step
 * does not compile. Listeners learn of a call from the outbox rows that `record` and `settle` write.
 */

import {
  BackplaneError,
  codeOf,
  detailsWithFix,
  type Invocation,
  isId,
  isTerminal,
  type TraceSpan,
  toBackplaneError,
} from "@backplane/contract";
import type { Caller, InvocationRow, Kernel, Page, PageOf, Scope, Ticket, WatchItem } from "@backplane/ports";
import { preApprove } from "../admission/pre-approve.ts";
import { admitWithAllowRules } from "../approval/admit-with-allow-rules.ts";
import { authorizeSessionIds } from "../authority/session-ids.ts";
import { findTraceStart } from "../calls/call-ids.ts";
import { type CallEnding, cancelledBy, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import type { SlotWait } from "../calls/requested-delivery.ts";
import { openIdempotent } from "../idempotency/idempotency.ts";
import { type InvocationRequest, open } from "../open/open.ts";
import { type Approved, approve } from "./approve.ts";
import { cancel } from "./cancel.ts";
import type { Door } from "./door.ts";
import { fallBack } from "./fall-back.ts";
import { type Recorded, record, toPublicInvocation } from "./record.ts";
import { run } from "./run.ts";
import { releaseToOtherNode, settle } from "./settle.ts";
import { openArtifact } from "./store-content.ts";
import { watch } from "./watch.ts";

/** Resolves when the row is on disk. */
export async function invoke(door: Door, request: InvocationRequest): Promise<Ticket> {
  requireCapacity(door);
  const opened = await open(door, request);
  const verdict = admitWithAllowRules(door, opened);
  // Not awaited if it is not a promise, as in approveAndRun.
  const checked = preApprove(door, verdict instanceof Promise ? await verdict : verdict);
  const recorded = await record(door, checked instanceof Promise ? await checked : checked);
  const { live } = recorded;
  const { caller, context, plan } = opened;
  live.answerRequest = request.answerRequest ?? null;
  live.sample = door.samplingAccess(door, live, { caller, context, bound: plan.bound });
  void complete(door, recorded);
  return new LiveTicket(live);
}

/** Runs a recorded call to its end. Never rejects: the call is settled or released. */
export async function complete(door: Door, recorded: Recorded): Promise<void> {
  const { live } = recorded;
  const ending = await approveAndRun(door, recorded).catch((error: unknown) =>
    toErrorEnding(door, live.row.id, error),
  );
  if (ending === null) await releaseToOtherNode(door, live);
  else await settle(door, live, ending);
}

async function approveAndRun(door: Door, recorded: Recorded): Promise<CallEnding | null> {
  const result = approve(door, recorded);
  // Not awaited if it is not a promise: an await costs a microtask even then (benchmark http.invoke).
  const call = result instanceof Promise ? await result : result;
  if (!call.is_approved) return call.ending;
  const slot = call.opened.delivery?.acquireSlot?.() ?? null;
  if (slot !== null && !(await waitForSlot(call.live, slot))) {
    return cancelledBy(call.live.stopped ?? "user");
  }
  return await (call.plan.bound.binding.trial === undefined ? run(door, call) : runOnTrial(door, call));
}

async function waitForSlot(live: LiveCall, { acquired, interrupt }: SlotWait): Promise<boolean> {
  live.stage = "queued";
  live.interrupt = interrupt;
  // The call may have been cancelled before `interrupt` was set.
  if (live.stopped !== null) interrupt();
  const may_start = await acquired;
  live.interrupt = null;
  return may_start;
}

/** If the process of a version on trial fails, the previous version may still run the call. */
async function runOnTrial(door: Door, approved: Approved): Promise<CallEnding | null> {
  const deadline = door.deps.clock.monotonic() + approved.live.remaining_ms;
  const ending = await run(door, approved);
  if (ending === null) return null;
  const next = await fallBack(door, approved, ending, deadline);
  if (next.kind === "end") return next.ending;
  const rerun = await approve(door, next.recorded);
  return rerun.is_approved ? await run(door, rerun) : rerun.ending;
}

function toErrorEnding(door: Door, invocation_id: string, error: unknown): CallEnding {
  if (codeOf(error) === undefined)
    door.deps.log.error({ err: error, invocation_id }, "invocation failed with an internal error");
  const typed_error = toBackplaneError(error);
  return failedWith(typed_error.code, typed_error.message, { details: detailsWithFix(typed_error) });
}

/**
 * Checked before anything is read or written, so that an overloaded gateway does no work for a call that it rejects.
 */
function requireCapacity(door: Door): void {
  if (door.state.stopping) throw new BackplaneError("gateway_stopping");
  if (door.live.size - door.pending.size >= door.deps.host.max_running) {
    throw new BackplaneError("request.overloaded", undefined, { details: { retry_after_ms: 1_000 } });
  }
}

/** A class, because each object literal with an accessor gets its own hidden class (benchmark http.invoke). */
class LiveTicket implements Ticket {
  readonly id: string;
  readonly settled: Promise<Invocation>;
  readonly #live: LiveCall;

  constructor(live: LiveCall) {
    this.id = live.row.id;
    this.settled = live.settled;
    this.#live = live;
  }

  get status(): Invocation["status"] {
    return this.#live.row.status;
  }

  get invocation(): Invocation {
    return toPublicInvocation(this.#live.row);
  }

  get events(): number {
    return this.#live.event_log?.seq ?? this.#live.last_seq;
  }
}

/** The calls as clients see them. A delegated token sees only the calls that it made itself. */
export function createInvocations(door: Door): Kernel["invocations"] {
  const { store } = door.deps;
  const session_id_deps = { store, live: door.live };

  async function find(caller: Caller, id: string): Promise<InvocationRow> {
    const row = await store.invocations.get(caller.scope, id);
    const is_foreign = row !== null && caller.delegation !== undefined && row.requested_by !== caller.actor;
    if (row === null || is_foreign) throw new BackplaneError("invocation.not_found");
    return row;
  }

  async function cancelCall(caller: Caller, id: string): Promise<Invocation> {
    const row = await find(caller, id);
    if (caller.role === "guest" && row.requested_by !== caller.actor) {
      throw new BackplaneError("policy.denied", "A guest may cancel only its own invocations.");
    }
    if (isTerminal(row.status)) throw new BackplaneError("invocation.settled");
    await cancel(door, row);
    return toPublicInvocation(await find(caller, id));
  }

  async function* watchCall(
    caller: Caller,
    id: string,
    after_seq: number,
    stopped: AbortSignal,
  ): AsyncGenerator<WatchItem> {
    yield* watch(door, await find(caller, id), after_seq, stopped);
  }

  /**
   * A call that begins a trace may be missing from the index of traces, because it is not known at its start whether
   * other calls will join: hooks that receive its events, or later calls with its trace id. This function adds
   * the call to the list, in the order of the ids.
   */
  async function addTraceStart(
    scope: Scope,
    trace_id: string,
    page: Page,
    trace_page: PageOf<InvocationRow>,
  ): Promise<PageOf<InvocationRow>> {
    const { items, next } = trace_page;
    const last = items.at(-1);
    const id = findTraceStart(trace_id);
    if (id === null || last === undefined || items.some((item) => item.id === id)) return trace_page;
    const is_on_other_page = id <= (page.after ?? "") || (next !== null && id > last.id);
    const row = is_on_other_page ? null : await store.invocations.get(scope, id);
    if (row === null || row.trace_id !== trace_id) return trace_page;
    const all = [...items, row].sort((a, b) => (a.id < b.id ? -1 : 1));
    const page_items = all.slice(0, page.limit);
    return { items: page_items, next: all.length > page_items.length ? page_items.at(-1)!.id : next };
  }

  return {
    // Not async: nearly every call has no session, and a second promise would cost time (benchmark http.invoke).
    invoke(caller, body, options = {}) {
      const checked = authorizeSessionIds(session_id_deps, caller, body);
      if (checked === null) return invoke(door, { caller, body, ...options });
      return checked.then(() => invoke(door, { caller, body, ...options }));
    },
    invokeOnce: async (caller, body, key, digest) => {
      await authorizeSessionIds(session_id_deps, caller, body);
      const { result, stored } = await openIdempotent(door.deps, caller, key, digest, (once) =>
        invoke(door, { caller, body, once }),
      );
      return result === null ? { id: stored, ticket: null } : { id: result.id, ticket: result };
    },
    get: async (caller, id) => toPublicInvocation(await find(caller, id)),
    list: async (caller, filter, page) => {
      if (caller.delegation !== undefined) {
        throw new BackplaneError("auth.scope", "A delegated token may not list invocations.");
      }
      return await store.invocations.list(caller.scope, filter, page);
    },
    listTrace: async (caller, trace_id, page) => {
      if (caller.delegation !== undefined) {
        throw new BackplaneError("auth.scope", "A delegated token may not read traces.");
      }
      const trace_page = await store.invocations.listTrace(caller.scope, trace_id, page);
      const { items, next } = await addTraceStart(caller.scope, trace_id, page, trace_page);
      return { items: items.map(toSpan), next };
    },
    openArtifact: async (caller, id, sha256) => {
      const file = await openArtifact(door.deps, await find(caller, id), sha256);
      if (file === null) throw new BackplaneError("artifact.not_found");
      return file;
    },
    cancel: cancelCall,
    watch: watchCall,
  };
}

function toSpan(row: InvocationRow): TraceSpan {
  return {
    id: row.id,
    parent_id: isId("invocation", row.requested_by) ? row.requested_by : null,
    run_id: row.run_id,
    session_id: row.session_id,
    export_kind: row.export_kind,
    export_id: row.export_id,
    package_id: row.package_id,
    status: row.status,
    error_code: row.error?.code ?? null,
    retry_count: row.retry_count,
    created_at: row.created_at,
    started_at: row.started_at,
    ended_at: row.ended_at,
  };
}
