/**
 * The approvals that calls of this node wait for. The row decides (first answer wins); this is only how the
 * waiting call hears of it: from answer() here, from its own timer, from a cancel, or, when another node took
 * the answer, by reading the row again after something was written.
 */

import type { Approval, ApprovalResponse, ApprovalStatus, ErrorCode } from "@backplane/contract";
import type { ApprovalResolution, KernelDeps, NewEvent, Timer } from "@backplane/ports";
import type { Revocation } from "../calls/revocation.ts";

export type Answer =
  | { kind: "approved" }
  | { kind: "rejected"; feedback: string | null }
  | { kind: "expired" }
  | { kind: "cancelled" }
  /** The gateway stops; the row stays pending and is taken up again at the next start. */
  | { kind: "detached" };

interface Waiter {
  approval: Approval;
  timer: Timer;
  hear: (answer: Answer) => void;
}

const LOOK_MS = 500;
const LONGEST_TIMER_MS = 2_000_000_000;

/** How sessions hear of questions: the bus, or nobody. */
export interface ApprovalNews {
  requested(approval: Approval): void;
  cancelled(approval: Approval, reason: CancelReason): void;
  /** Somebody answered elsewhere than on the bus: whoever shows the question hears of it. */
  answered(approval: Approval, response: ApprovalResponse): void;
}

export type CancelReason = "timeout" | "shutdown" | "interrupt" | "revoked";

export class PendingApprovals {
  readonly #deps: KernelDeps;
  readonly #news: ApprovalNews | null;
  readonly #waiters = new Map<string, Waiter>();
  #unsubscribe: (() => void) | null = null;
  #look: Timer | null = null;

  constructor(deps: KernelDeps, news: ApprovalNews | null = null) {
    this.#deps = deps;
    this.#news = news;
  }

  get size(): number {
    return this.#waiters.size;
  }

  wait(approval: Approval): Promise<Answer> {
    const { clock, store } = this.#deps;
    const end = clock.monotonic() + Math.max(0, Date.parse(approval.expires_at) - clock.now());
    return new Promise((resolve) => {
      const hear = (answer: Answer) => {
        waiter.timer.stop();
        this.#waiters.delete(approval.id);
        if (this.#waiters.size === 0) this.#deaf();
        resolve(answer);
      };
      const waiter: Waiter = { approval, timer: this.#expire(approval.id, end), hear };
      this.#waiters.set(approval.id, waiter);
      this.#unsubscribe ??= store.outbox.onAppended(() => this.#lookSoon());
      this.#news?.requested(approval);
    });
  }

  /** The row has been answered. */
  tell(approval_id: string, answer: Answer): void {
    this.#waiters.get(approval_id)?.hear(answer);
  }

  /** Ends the question from our side; an answer that was faster stands. Tried until the store takes it. */
  async end(
    approval_id: string,
    status: "expired" | "cancelled",
    reason: CancelReason = status === "expired" ? "timeout" : "interrupt",
    why: Revocation | null = null,
  ): Promise<void> {
    const waiter = this.#waiters.get(approval_id);
    if (waiter === undefined) return;
    try {
      const feedback = why?.message ?? null;
      const won = await resolveApproval(this.#deps, waiter.approval, { status, feedback }, why?.code);
      if (won) {
        waiter.hear({ kind: status });
        this.#news?.cancelled(waiter.approval, reason);
      } else await this.#read(waiter);
    } catch (error) {
      this.#deps.log.warn({ err: error, approval_id }, "an approval could not be ended; trying again");
      waiter.timer = this.#deps.clock.after(LOOK_MS, () => void this.end(approval_id, status, reason, why));
    }
  }

  /** At an orderly stop: durable ones stay pending, the others end. */
  async stop(): Promise<void> {
    const ends: Promise<void>[] = [];
    for (const waiter of this.#waiters.values()) {
      if (waiter.approval.durable) waiter.hear({ kind: "detached" });
      else ends.push(this.end(waiter.approval.id, "cancelled", "shutdown"));
    }
    await Promise.all(ends);
  }

  /** In steps, since a timer holds at most 24 days. */
  #expire(approval_id: string, end: number): Timer {
    const { clock } = this.#deps;
    return clock.after(Math.min(Math.max(0, end - clock.monotonic()), LONGEST_TIMER_MS), () => {
      const waiter = this.#waiters.get(approval_id);
      if (clock.monotonic() >= end) void this.end(approval_id, "expired");
      else if (waiter !== undefined) waiter.timer = this.#expire(approval_id, end);
    });
  }

  #lookSoon(): void {
    if (this.#look !== null || this.#waiters.size === 0) return;
    this.#look = this.#deps.clock.after(LOOK_MS, () => {
      this.#look = null;
      void this.#lookNow();
    });
  }

  async #lookNow(): Promise<void> {
    try {
      for (const waiter of this.#waiters.values()) await this.#read(waiter);
    } catch (error) {
      this.#deps.log.warn({ err: error }, "approvals could not be read; looking again later");
      this.#lookSoon();
    }
  }

  async #read(waiter: Waiter): Promise<void> {
    const { approval } = waiter;
    const row = await this.#deps.store.approvals.get(approval, approval.id);
    if (row !== null && row.status !== "pending") waiter.hear(answerOf(row));
  }

  #deaf(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#look?.stop();
    this.#look = null;
  }
}

export function answerOf(approval: Approval): Answer {
  switch (approval.status) {
    case "approved":
      return { kind: "approved" };
    case "rejected":
      return { kind: "rejected", feedback: approval.feedback };
    case "cancelled":
      return { kind: "cancelled" };
    case "expired":
    case "pending":
      return { kind: "expired" };
  }
}

/** Writes the end of an approval with its event; false when another was first. */
export function resolveApproval(
  deps: Pick<KernelDeps, "store" | "ids" | "clock">,
  approval: Approval,
  how: { status: Exclude<ApprovalStatus, "pending"> } & Partial<ApprovalResolution>,
  why?: ErrorCode,
): Promise<boolean> {
  const now = deps.clock.now();
  const scope = { org_id: approval.org_id, project_id: approval.project_id };
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type: "approval.resolved",
    scope,
    occurred_at: now,
    subject: { kind: "approval", id: approval.id },
    summary: { invocation_id: approval.invocation_id, tool: approval.tool, status: how.status },
  };
  const resolution: ApprovalResolution = {
    response: null,
    feedback: null,
    answered_by: null,
    resolved_at: new Date(now).toISOString(),
    ...how,
  };
  const audit = {
    id: deps.ids.next("audit"),
    at: now,
    scope,
    actor: resolution.answered_by ?? "kernel",
    action: `approval.${how.status}`,
    subject: approval.id,
    details: {
      invocation_id: approval.invocation_id,
      tool: approval.tool,
      digest: approval.digest,
      ...(resolution.response === null ? {} : { response: resolution.response }),
      ...(why === undefined ? {} : { why }),
    },
  };
  return deps.store.approvals.resolve(approval.id, resolution, { events: [event], audit });
}
