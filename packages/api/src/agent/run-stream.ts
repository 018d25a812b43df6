/**
 * A run as a stream: what its session's tape says of it, then live, and last `run` with the ended record. The tape
 * gives each item its id, so a reader that comes back with the last one misses and repeats nothing.
 */
import { codeOf, type Approval, type JsonObject, type Run } from "@backplane/contract";
import type { Caller, Clock, Kernel, SessionRef } from "@backplane/kernel";
import type { SseItem } from "../event-streams.ts";
import { itemOf, itemOfEntry, mayEnd } from "./run-event.ts";
import { beforeRun } from "./run-start.ts";
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

/** Throws what is to be refused. `after` is an entry's id; null begins with the message that asked. */
export async function openRun(
  deps: RunStreamDeps,
  asked_by: Caller,
  id: string,
  after: number | null,
): Promise<RunStream> {
  const { runs, sessions } = deps.kernel;
  const run = await runs.get(asked_by, id);
  const { org_id, project_id, session_id, workspace } = run;
  // The run is the caller's to see, and it lies in exactly this project.
  const caller: Caller = { ...asked_by, scope: { org_id, project_id } };
  const ref = { session_id, workspace };
  const from = after ?? (await beforeRun(sessions, caller, ref, run));
  if (run.status !== "running")
    return { items: (stop) => told(deps, caller, ref, run, from, stop), close() {} };
  const watch = await watchSession({ fanout: deps.kernel.fanout, clock: deps.clock }, caller, ref, from);
  return { items: (stop) => live(deps, caller, ref, run, watch, stop), close: () => watch.close() };
}

/** An ended run is all on the tape. */
async function* told(
  { kernel }: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  run: Run,
  from: number,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const last = run.output?.entry_id ?? 0;
  // A turn that a crash cut off has no last entry; its time is over when it was ended.
  const ended = Date.parse(run.ended_at ?? run.started_at);
  for (let after = from; !stop.aborted; ) {
    const page = await kernel.sessions.entries(caller, ref, after, PAGE);
    const mine = page.filter(({ id, date }) => (last > 0 ? id <= last : Date.parse(date) <= ended));
    for (const entry of mine) {
      const item = itemOfEntry(ref.session_id, entry);
      if (item !== null) yield item;
    }
    if (page.length < PAGE || mine.length < page.length) break;
    after = page.at(-1)!.id;
  }
  yield { event: "run", data: JSON.stringify(run) };
}

async function* live(
  deps: RunStreamDeps,
  caller: Caller,
  ref: SessionRef,
  { id }: Run,
  watch: SessionWatch,
  stop: AbortSignal,
): AsyncGenerator<SseItem> {
  const { kernel } = deps;
  const asked = new Set<unknown>();
  for await (const watched of watch.items(stop)) {
    const { kind, payload } = watched.event;
    const again = kind === "approval.request" && asked.has(payload.id);
    if (kind === "approval.request") asked.add(payload.id);
    const item = again ? null : itemOf(watched);
    if (item !== null) yield item;
    if (mayEnd(watched, id)) {
      const run = await kernel.runs.get(caller, id);
      const last = run.output?.entry_id ?? 0;
      if (run.status !== "running" && (watched.entry_id === null || watched.entry_id >= last)) {
        yield { event: "run", data: JSON.stringify(run) };
        return;
      }
    }
    // What was asked before this reader came is on no tape, and waits for an answer all the same.
    if (kind === "session.replay.done")
      for (const approval of await pending(kernel, caller, ref)) {
        if (!asked.has(approval.id)) yield questionOf(approval, ref.session_id);
        asked.add(approval.id);
      }
  }
}

async function pending(
  { approvals }: RunStreamDeps["kernel"],
  caller: Caller,
  { session_id }: SessionRef,
): Promise<Approval[]> {
  try {
    const { items } = await approvals.list(caller, { status: "pending" }, { limit: 500 });
    return items.filter((approval) => approval.session_id === session_id);
  } catch (error) {
    // A credential that may follow a run need not be one that may see approvals.
    if (codeOf(error)?.startsWith("auth.")) return [];
    throw error;
  }
}

function questionOf(approval: Approval, session_id: string): SseItem {
  const { tool, input, brief, digest, reason, risk, invocation_id, expires_at } = approval;
  const payload: JsonObject = {
    id: approval.id,
    target_session_id: session_id,
    tool_name: tool,
    params: input,
    brief,
    digest,
    reason,
    risk,
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
