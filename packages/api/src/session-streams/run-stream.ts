/**
 * A run as a stream: its entries on the session's tape, then live events, and last `run` with the final record. The id
 * of an item is its entry id, so a client that reconnects with the last one neither misses nor repeats an entry.
 * Deltas that were sent meanwhile are not replayed. A turn ends with its answer, and the run of a harness with
 * `x.harness.ended`, which is written after the run's row.
 */
import { type Approval, codeOf, type Entry, type JsonObject, type Run } from "@backplane/contract";
import type { Caller, Clock, Kernel, SessionRef, Timer } from "@backplane/ports";
import type { SseItem } from "../sse/event-streams.ts";
import { isHarnessEnd, isHarnessEndEntry, itemOfEntry, itemOfEvent, mayEndRun } from "./run-events.ts";
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
/** How many entries after the answer of a harness are searched for the end of its run. */
const MAX_HELD_BACK = PAGE;
/** How long a stream waits for the last entry of a run that has ended. */
const LAST_ENTRY_MS = 1_000;

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
  if (run.status !== "running" && !isEndBeingWritten(run, deps.clock))
    return { items: (stop) => replay(deps, caller, ref, run, from, stop), close() {} };
  const watch = await watchSession({ fanout: deps.kernel.fanout, clock: deps.clock }, caller, ref, from);
  return { items: (stop) => follow(deps, caller, ref, run, watch, stop), close: () => watch.close() };
}

/** The end of a harness is written to the tape a moment after the run's row. */
function isEndBeingWritten({ harness, ended_at, started_at }: Run, clock: Clock): boolean {
  return harness !== undefined && clock.now() - Date.parse(ended_at ?? started_at) < LAST_ENTRY_MS;
}

/**
 * Streams a run that has ended from the tape. If the event that ended a harness was lost in a crash, the stream stops
 * at the answer, or at the time when the run ended.
 */
async function* replay(
  { kernel }: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  run: Run,
  from: number,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const max_held_back = run.harness === undefined ? 0 : MAX_HELD_BACK;
  /** Entries that belong to the run only if its last entry follows them. */
  let held_back: Entry[] = [];
  let complete = false;
  for (let after = from; !stop.aborted && !complete; ) {
    const page = await kernel.sessions.listEntries(caller, ref, after, PAGE);
    for (const entry of page) {
      held_back.push(entry);
      const is_last = isHarnessEndEntry(entry, run.id);
      if (!is_last && !endsAfter(run, entry)) {
        complete = held_back.length > max_held_back;
        if (complete) break;
        continue;
      }
      for (const belonging of held_back) {
        const item = itemOfEntry(ref.session_id, belonging);
        if (item !== null) yield item;
      }
      held_back = [];
      complete = is_last;
      if (complete) break;
    }
    if (page.length < PAGE) break;
    after = page.at(-1)!.id;
  }
  yield { event: "run", data: JSON.stringify(run) };
}

/**
 * A run without an answer has no last entry of its own, and a harness may write entries after its answer. The end time
 * bounds both.
 */
function endsAfter({ output, harness, started_at, ended_at }: Run, { id, date }: Entry): boolean {
  const last = output?.entry_id ?? 0;
  if (last >= id) return true;
  return (last === 0 || harness !== undefined) && Date.parse(date) <= Date.parse(ended_at ?? started_at);
}

async function* follow(
  deps: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  { id, harness, first_entry_id }: Run,
  watch: SessionWatch,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const { kernel, clock } = deps;
  const sent_approval_ids = new Set<unknown>();
  let last_id = first_entry_id - 1;
  let timer: Timer | null = null;
  let ended: Run | null = null;
  try {
    for await (const watched of watch.items(stop)) {
      const { kind, payload } = watched.event;
      const repeated = kind === "approval.request" && sent_approval_ids.has(payload.id);
      if (kind === "approval.request") sent_approval_ids.add(payload.id);
      const item = repeated ? null : itemOfEvent(watched);
      if (item !== null) yield item;
      last_id = watched.entry_id ?? last_id;
      if (mayEndRun(watched, id)) {
        const run = await kernel.runs.get(caller, id);
        const is_complete =
          harness === undefined ? last_id >= (run.output?.entry_id ?? 0) : isHarnessEnd(watched, id);
        if (run.status !== "running" && is_complete) {
          yield { event: "run", data: JSON.stringify(run) };
          return;
        }
        // The run ended before the replay was complete. Its last entry follows, unless another gateway wrote it or a
        // crash lost it.
        if (run.status !== "running" && kind === "session.replay.done") {
          ended = run;
          timer = clock.after(LAST_ENTRY_MS, () => watch.close());
        }
      }
      // Approval requests are not on the tape, so those made before this client connected are sent after the replay.
      if (kind === "session.replay.done")
        for (const approval of await listPendingApprovals(kernel, caller, ref)) {
          if (!sent_approval_ids.has(approval.id)) yield toApprovalItem(approval, ref.session_id);
          sent_approval_ids.add(approval.id);
        }
    }
  } finally {
    timer?.stop();
  }
  if (ended !== null && !stop.aborted) yield* replay(deps, caller, ref, ended, last_id, stop);
}

async function listPendingApprovals(
  { approvals }: RunStreamDeps["kernel"],
  caller: Caller,
  { session_id }: SessionRef,
): Promise<Approval[]> {
  try {
    const { items } = await approvals.list(caller, { status: "pending" }, { limit: 500 });
    return items.filter((approval) => approval.session_id === session_id);
  } catch (error) {
    // A credential that may follow a run need not be allowed to list approvals.
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
