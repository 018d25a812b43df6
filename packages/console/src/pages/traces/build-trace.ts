/** The rows of a trace: runs, their calls and the calls that those made, each below its parent. */
import type { InvocationStatus, Run, TraceSpan } from "@backplane/contract";

export interface TraceRow {
  key: string;
  kind: "run" | "call";
  /** The id of the call or run. */
  id: string;
  name: string;
  hint: string;
  depth: number;
  /** Null for a run that was not loaded. */
  status: InvocationStatus | Run["status"] | null;
  error_code: string | null;
  retries: number;
  session_id: string | null;
  from: number;
  /** When the call left the queue; null if it has not. */
  started: number | null;
  to: number;
}

type KnownRun = Pick<
  Run,
  "id" | "parent_run_id" | "trigger" | "status" | "error" | "session_id" | "started_at" | "ended_at"
>;

/** `now` is the end of rows that are still running. A run that was not loaded spans its calls. */
export function buildTrace(spans: readonly TraceSpan[], runs: readonly KnownRun[], now: number): TraceRow[] {
  const spans_by_id = new Map(spans.map((span) => [span.id, span]));
  const known_runs = new Map(runs.map((run) => [run.id, run]));
  const children = new Map<string, TraceSpan[]>();
  const roots: TraceSpan[] = [];
  const spans_by_run = new Map<string, TraceSpan[]>();
  for (const span of spans) {
    const list =
      span.parent_id !== null && spans_by_id.has(span.parent_id)
        ? listFor(children, span.parent_id)
        : span.run_id !== null
          ? listFor(spans_by_run, span.run_id)
          : roots;
    list.push(span);
  }
  const rows: TraceRow[] = [];
  // A loop instead of recursion, because a chain of calls can be long.
  const addCalls = (first: readonly TraceSpan[], depth: number) => {
    const stack = first.toReversed().map((span) => ({ span, depth }));
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      rows.push(toCallRow(next.span, next.depth, now));
      for (const child of (children.get(next.span.id) ?? []).toReversed())
        stack.push({ span: child, depth: next.depth + 1 });
    }
  };
  addCalls(roots, 0);
  for (const [run_id, calls] of spans_by_run) {
    const run = known_runs.get(run_id);
    const depth = run?.parent_run_id != null && spans_by_run.has(run.parent_run_id) ? 1 : 0;
    rows.push(toRunRow(run_id, run, calls, depth, now));
    addCalls(calls, depth + 1);
  }
  return rows;
}

function toCallRow(span: TraceSpan, depth: number, now: number): TraceRow {
  return {
    key: span.id,
    kind: "call",
    id: span.id,
    name: span.export_id,
    hint: span.package_id,
    depth,
    status: span.status,
    error_code: span.error_code,
    retries: span.retry_count,
    session_id: span.session_id,
    from: Date.parse(span.created_at),
    started: span.started_at === null ? null : Date.parse(span.started_at),
    to: span.ended_at === null ? now : Date.parse(span.ended_at),
  };
}

function toRunRow(
  run_id: string,
  run: KnownRun | undefined,
  calls: readonly TraceSpan[],
  depth: number,
  now: number,
): TraceRow {
  const from = run === undefined ? Date.parse(calls[0]!.created_at) : Date.parse(run.started_at);
  const ends = calls.map(({ ended_at }) => (ended_at === null ? now : Date.parse(ended_at)));
  const last = ends.reduce((latest, end) => Math.max(latest, end), from);
  return {
    key: run_id,
    kind: "run",
    id: run_id,
    name: run === undefined ? "Run" : depth > 0 ? "Sub-agent" : "Turn",
    hint: run === undefined ? run_id : run.trigger.replaceAll("_", " "),
    depth,
    status: run?.status ?? null,
    error_code: run?.error?.code ?? null,
    retries: 0,
    session_id: run?.session_id ?? calls[0]!.session_id,
    from,
    started: from,
    to: run === undefined ? last : run.ended_at === null ? now : Date.parse(run.ended_at),
  };
}

function listFor<T>(lists: Map<string, T[]>, key: string): T[] {
  const existing = lists.get(key);
  if (existing !== undefined) return existing;
  const created: T[] = [];
  lists.set(key, created);
  return created;
}
