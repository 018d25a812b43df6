/**
 * The approvals that calls on this node wait for. The row in the store decides, and the first answer wins. This class
 * closes approvals that expire or whose call is cancelled, and wakes the waiting calls. It notices an answer that was
 * given on another node by reading the row again.
 */

import type { Approval, ApprovalResponse, ApprovalStatus, ErrorCode } from "@backplane/contract";
import type { ApprovalResolution, ApprovalStore, KernelDeps, NewEvent, Timer } from "@backplane/ports";
import { callIdsOf } from "../calls/call-ids.ts";
import type { Revocation } from "../calls/revocation.ts";

export type ApprovalOutcome =
  | { kind: "approved" }
  | { kind: "rejected"; feedback: string | null }
  | { kind: "expired" }
  | { kind: "cancelled" }
  /** The gateway is stopping. The row stays pending, and the call is resumed at the next start. */
  | { kind: "detached" };

interface Waiter {
  approval: Approval;
  timer: Timer;
  resolve: (outcome: ApprovalOutcome) => void;
}

const READ_DELAY_MS = 500;
const MAX_TIMER_MS = 2_000_000_000;

/** Publishes what happens to approvals, so that clients can show them. */
export interface ApprovalPublisher {
  requested(approval: Approval): void;
  cancelled(approval: Approval, reason: CancelReason): void;
  /** A person answered somewhere other than on the bus, so clients have to remove the prompt. */
  answered(approval: Approval, response: ApprovalResponse, feedback: string | null): void;
  /** The answer of the plugin `source` was accepted. Plugins have received it; the watchers of the session have not. */
  answeredOnBus(
    approval: Approval,
    response: ApprovalResponse,
    feedback: string | null,
    source: string,
  ): void;
}

export type CancelReason = "timeout" | "shutdown" | "interrupt" | "revoked";

export class PendingApprovals {
  readonly #deps: KernelDeps;
  readonly #publisher: ApprovalPublisher | null;
  readonly #waiters = new Map<string, Waiter>();
  #unsubscribe: (() => void) | null = null;
  #read_timer: Timer | null = null;

  constructor(deps: KernelDeps, publisher: ApprovalPublisher | null = null) {
    this.#deps = deps;
    this.#publisher = publisher;
  }

  get size(): number {
    return this.#waiters.size;
  }

  wait(approval: Approval): Promise<ApprovalOutcome> {
    const { clock, store } = this.#deps;
    const end = clock.monotonic() + Math.max(0, Date.parse(approval.expires_at) - clock.now());
    return new Promise((resolve) => {
      const waiter: Waiter = {
        approval,
        timer: this.#startExpiryTimer(approval.id, end),
        resolve: (outcome) => {
          waiter.timer.stop();
          this.#waiters.delete(approval.id);
          if (this.#waiters.size === 0) this.#unsubscribeAll();
          resolve(outcome);
        },
      };
      this.#waiters.set(approval.id, waiter);
      this.#unsubscribe ??= store.outbox.onAppended(() => this.#scheduleRead());
      this.#publisher?.requested(approval);
    });
  }

  /** Wakes the waiting call after the answer was stored. */
  resolve(approval_id: string, outcome: ApprovalOutcome): void {
    this.#waiters.get(approval_id)?.resolve(outcome);
  }

  /** Expires or cancels an approval, unless an answer came first. Retried until the store accepts the write. */
  async close(
    approval_id: string,
    status: "expired" | "cancelled",
    reason: CancelReason = status === "expired" ? "timeout" : "interrupt",
    revocation: Revocation | null = null,
  ): Promise<void> {
    const waiter = this.#waiters.get(approval_id);
    if (waiter === undefined) return;
    try {
      const feedback = revocation?.message ?? null;
      const ended = await endApproval(
        this.#deps,
        waiter.approval,
        { status, feedback },
        { why: revocation?.code },
      );
      if (ended) {
        waiter.resolve({ kind: status });
        this.#publisher?.cancelled(waiter.approval, reason);
      } else await this.#read(waiter);
    } catch (error) {
      this.#deps.log.warn({ err: error, approval_id }, "could not close an approval; retrying");
      waiter.timer = this.#deps.clock.after(
        READ_DELAY_MS,
        () => void this.close(approval_id, status, reason, revocation),
      );
    }
  }

  /** Cancels the pending approvals, except durable ones, which stay pending and are resumed at the next start. */
  async stop(): Promise<void> {
    const closing: Promise<void>[] = [];
    for (const waiter of this.#waiters.values()) {
      if (waiter.approval.durable) waiter.resolve({ kind: "detached" });
      else closing.push(this.close(waiter.approval.id, "cancelled", "shutdown"));
    }
    await Promise.all(closing);
  }

  /** Waits in steps, because a timer cannot run for more than 24 days. */
  #startExpiryTimer(approval_id: string, end: number): Timer {
    const { clock } = this.#deps;
    return clock.after(Math.min(Math.max(0, end - clock.monotonic()), MAX_TIMER_MS), () => {
      const waiter = this.#waiters.get(approval_id);
      if (clock.monotonic() >= end) void this.close(approval_id, "expired");
      else if (waiter !== undefined) waiter.timer = this.#startExpiryTimer(approval_id, end);
    });
  }

  #scheduleRead(): void {
    if (this.#read_timer !== null || this.#waiters.size === 0) return;
    this.#read_timer = this.#deps.clock.after(READ_DELAY_MS, () => {
      this.#read_timer = null;
      void this.#readAll();
    });
  }

  async #readAll(): Promise<void> {
    try {
      for (const waiter of this.#waiters.values()) await this.#read(waiter);
    } catch (error) {
      this.#deps.log.warn({ err: error }, "could not read the pending approvals; retrying");
      this.#scheduleRead();
    }
  }

  async #read(waiter: Waiter): Promise<void> {
    const { approval } = waiter;
    const row = await this.#deps.store.approvals.get(approval, approval.id);
    if (row !== null && row.status !== "pending") waiter.resolve(approvalOutcomeOf(row));
  }

  #unsubscribeAll(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#read_timer?.stop();
    this.#read_timer = null;
  }
}

export function approvalOutcomeOf(approval: Approval): ApprovalOutcome {
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

/** Ends an approval and writes the event and audit entry. Resolves with false if it had already ended. */
export async function endApproval(
  deps: Pick<KernelDeps, "store" | "ids" | "clock">,
  approval: Approval,
  ending: { status: Exclude<ApprovalStatus, "pending"> } & Partial<ApprovalResolution>,
  { why, new_rule }: { why?: ErrorCode | undefined; new_rule?: Parameters<ApprovalStore["resolve"]>[3] } = {},
): Promise<boolean> {
  const now = deps.clock.now();
  const scope = { org_id: approval.org_id, project_id: approval.project_id };
  const row = await deps.store.invocations.get(scope, approval.invocation_id);
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type: "approval.resolved",
    scope,
    occurred_at: now,
    subject: { kind: "approval", id: approval.id },
    summary: { invocation_id: approval.invocation_id, tool: approval.tool, status: ending.status },
    ...(row === null ? {} : { ids: callIdsOf(row), from_hook: row.delivery_id !== null }),
  };
  const resolution: ApprovalResolution = {
    response: null,
    feedback: null,
    answered_by: null,
    resolved_at: new Date(now).toISOString(),
    ...ending,
  };
  const audit = {
    id: deps.ids.next("audit"),
    at: now,
    scope,
    actor: resolution.answered_by ?? "kernel",
    action: `approval.${resolution.status}`,
    subject: approval.id,
    details: {
      invocation_id: approval.invocation_id,
      tool: approval.tool,
      digest: approval.digest,
      ...(resolution.response === null ? {} : { response: resolution.response }),
      ...(new_rule === undefined ? {} : { allow_rule: new_rule.rule.id }),
      ...(why === undefined ? {} : { why }),
    },
  };
  return await deps.store.approvals.resolve(approval.id, resolution, { events: [event], audit }, new_rule);
}
