/**
 * A run as a stream: its entries on the session's tape, then live events, and last `run` with the final record. The id
 * of an item is its entry id, so a client that reconnects with the last one neither misses nor repeats an entry.
 * Deltas that were sent meanwhile are not replayed.
 */
import { type Approval, codeOf, type JsonObject, type Run } from "@backplane/contract";
import type { Caller, Clock, Kernel, SessionRef } from "@backplane/ports";
import type { SseItem } from "../sse/event-streams.ts";
import { itemOfEntry, itemOfEvent, mayEndRun } from "./run-events.ts";
import { type SessionWatch, watchSession } from "./watch-session.ts";

export interface RunStreamDeps {
  kernel: Pick<Kernel, "runs" | "sessions" | "fanout" | "approvals">;
  clock: Clock;
}

export interface RunStream {
  items(stop: AbortSignal): AsyncGenerator<SseItem>;
  close(): void;
}

const PAGE = 200;

/**
 * Throws when the caller may not see the run. `after` is an entry id; null starts at the message that began the run.
 */
export async function openRunStream(
  deps: RunStreamDeps,
  requested_by: Caller,
  id: string,
  after: number | null,
): Promise<RunStream> {
  const run = await deps.kernel.runs.get(requested_by, id);
  const { org_id, project_id, session_id, workspace } = run;
  // The caller may see the run, so it may read the session in the run's own project.
  const caller: Caller = { ...requested_by, scope: { org_id, project_id } };
  const ref = { session_id, workspace };
  const from = after ?? run.first_entry_id - 1;
  if (run.status !== "running")
    return { items: (stop) => replay(deps, caller, ref, run, from, stop), close() {} };
  const watch = await watchSession({ fanout: deps.kernel.fanout, clock: deps.clock }, caller, ref, from);
  return { items: (stop) => follow(deps, caller, ref, run, watch, stop), close: () => watch.close() };
}

/** Streams a run that has ended from the tape, which contains all of its entries. */
async function* replay(
  { kernel }: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  run: Run,
  from: number,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const last = run.output?.entry_id ?? 0;
  // A run without an output has no last entry, so its end time bounds it.
  const ended_at = Date.parse(run.ended_at ?? run.started_at);
  for (let after = from; !stop.aborted; ) {
    const page = await kernel.sessions.entries(caller, ref, after, PAGE);
    const run_entries = page.filter(({ id, date }) => (last > 0 ? id <= last : Date.parse(date) <= ended_at));
    for (const entry of run_entries) {
      const item = itemOfEntry(ref.session_id, entry);
      if (item !== null) yield item;
    }
    if (page.length < PAGE || run_entries.length < page.length) break;
    after = page.at(-1)!.id;
  }
  yield { event: "run", data: JSON.stringify(run) };
}

async function* follow(
  deps: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  { id }: Run,
  watch: SessionWatch,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const { kernel } = deps;
  const requested = new Set<unknown>();
  for await (const watched of watch.items(stop)) {
    const { kind, payload } = watched.event;
    const repeated = kind === "approval.request" && requested.has(payload.id);
    if (kind === "approval.request") requested.add(payload.id);
    const item = repeated ? null : itemOfEvent(watched);
    if (item !== null) yield item;
    if (mayEndRun(watched, id)) {
      const run = await kernel.runs.get(caller, id);
      const last = run.output?.entry_id ?? 0;
      if (run.status !== "running" && (watched.entry_id === null || watched.entry_id >= last)) {
        yield { event: "run", data: JSON.stringify(run) };
        return;
      }
    }
    // Approval requests are not on the tape, so those made before this client connected are sent after the replay.
    if (kind === "session.replay.done")
      for (const approval of await pendingApprovals(kernel, caller, ref)) {
        if (!requested.has(approval.id)) yield toApprovalItem(approval, ref.session_id);
        requested.add(approval.id);
      }
  }
}

async function pendingApprovals(
  { approvals }: RunStreamDeps["kernel"],
  caller: Caller,
  { session_id }: SessionRef,
): Promise<Approval[]> {
  try {
    const { items } = await approvals.list(caller, { status: "pending" }, { limit: 500 });
    return items.filter((approval) => approval.session_id === session_id);
  } catch (error) {
    // A credential may be allowed to follow a run and not to list approvals.
    if (codeOf(error)?.startsWith("auth.")) return [];
    throw error;
  }
}

function toApprovalItem(approval: Approval, session_id: string): SseItem {
  const { tool, input, brief, digest, reason, risk, may_cover, invocation_id, expires_at } = approval;
  const payload: JsonObject = {
    id: approval.id,
    target_session_id: session_id,
    tool_name: tool,
    params: input,
    brief,
    digest,
    reason,
    risk,
    may_cover,
    invocation_id,
    expires_at,
  };
  const ts = Date.parse(approval.requested_at) / 1000;
  const event = {
    id: approval.id,
    kind: "approval.request",
    session_id: "kernel",
    ts,
    source: "kernel",
    payload,
  };
  return { event: "approval.request", data: JSON.stringify({ op: "event", session_id, event }) };
}
