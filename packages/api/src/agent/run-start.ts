/** Where a run begins on its session's tape: the entry before the message that asked for it. */
import type { Entry, Run } from "@backplane/contract";
import type { AgentSessions, Caller, SessionRef } from "@backplane/kernel";

/** Best-effort entries reach the tape a little after their time, so dates rise only roughly. */
const SLACK_MS = 5_000;
const PAGE = 200;

export async function beforeRun(
  sessions: Pick<AgentSessions, "get" | "entries">,
  caller: Caller,
  ref: SessionRef,
  run: Run,
): Promise<number> {
  const started = Date.parse(run.started_at);
  let low = 0;
  let high = (await sessions.get(caller, ref)).last_entry_id;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [entry] = await sessions.entries(caller, ref, middle, 1);
    if (entry === undefined || Date.parse(entry.date) >= started - SLACK_MS) high = middle;
    else low = entry.id;
  }
  for (let after = low; ; ) {
    const page = await sessions.entries(caller, ref, after, PAGE);
    for (const entry of page) {
      if (asksFor(entry, run, started)) return entry.id - 1;
      after = entry.id;
    }
    if (page.length < PAGE) return low;
  }
}

function asksFor({ kind, payload, date }: Entry, run: Run, started: number): boolean {
  if (kind !== "message" || payload.role !== "user" || payload.content !== run.input.text) return false;
  return Date.parse(date) >= started;
}
