/** Splits the time of a call into phases: approval, queue, attempts, and the pauses between attempts. */
import type { Approval, EarlierAttempt, Invocation } from "@backplane/contract";

export interface Phase {
  name: string;
  kind: "approval" | "queue" | "run" | "pause";
  from: number;
  to: number;
  /** Why an attempt was followed by another one. */
  error?: EarlierAttempt["error"];
}

export type TimedCall = Pick<
  Invocation,
  "created_at" | "started_at" | "ended_at" | "retry_count" | "earlier_attempts"
>;

const PAUSES: Record<EarlierAttempt["reason"], string> = {
  retry: "Pause",
  fallback: "Rollback",
  recovery: "Gateway down",
};

export function splitPhases(
  call: TimedCall,
  approval: Pick<Approval, "requested_at" | "resolved_at"> | null,
  now: number,
): Phase[] {
  const created = Date.parse(call.created_at);
  const ended = call.ended_at === null ? now : Date.parse(call.ended_at);
  const started = call.started_at === null ? null : Date.parse(call.started_at);
  const phases: Phase[] = [];
  let at = created;
  if (approval !== null) {
    const resolved = approval.resolved_at === null ? (started ?? ended) : Date.parse(approval.resolved_at);
    phases.push({
      name: "Approval",
      kind: "approval",
      from: Date.parse(approval.requested_at),
      to: resolved,
    });
    at = Math.max(at, resolved);
  }
  if (started === null) {
    if (ended > at) phases.push({ name: "Queue", kind: "queue", from: at, to: ended });
    return phases;
  }
  if (started > at) phases.push({ name: "Queue", kind: "queue", from: at, to: started });
  phases.push(...splitAttempts(call, started, Math.max(started, ended)));
  return phases;
}

/** One phase per attempt and per pause between two. The oldest attempts of a long list are not recorded. */
function splitAttempts({ retry_count, earlier_attempts = [] }: TimedCall, started: number, ended: number) {
  if (earlier_attempts.length === 0)
    return [{ name: "Run", kind: "run", from: started, to: ended } satisfies Phase];
  const phases: Phase[] = [];
  // The attempts of a delivery, or of a long list, do not always begin at 1.
  const first = retry_count + 1 - earlier_attempts.length;
  let last_start = started;
  for (const [index, attempt] of earlier_attempts.entries()) {
    const from = Date.parse(attempt.started_at);
    const retried = Date.parse(attempt.retried_at);
    const to = attempt.ended_at === null ? from : Date.parse(attempt.ended_at);
    phases.push({ name: `Attempt ${first + index}`, kind: "run", from, to, error: attempt.error });
    if (retried > to) phases.push({ name: PAUSES[attempt.reason], kind: "pause", from: to, to: retried });
    last_start = retried;
  }
  phases.push({
    name: `Attempt ${retry_count + 1}`,
    kind: "run",
    from: last_start,
    to: Math.max(last_start, ended),
  });
  return phases;
}
