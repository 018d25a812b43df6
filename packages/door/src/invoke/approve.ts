/**
 * Third gate: nothing to ask, or a person said yes to this very call. After the answer everything is checked
 * again from the row, because the wait may have been long. `Approved` is minted here alone.
 */

import { type Approval, codeOf, type Grant, type MaybePromise } from "@backplane/contract";
import type { InvocationRow } from "@backplane/ports";
import { type ExportPlan, mintDelegation } from "@backplane/registry";
import { changedParts, readCoverage } from "../approval/coverage.ts";
import { followUpApproval } from "../approval/new-approval.ts";
import { type Answer, answerOf } from "../approval/pending.ts";
import type { Place } from "../calls/concurrency.ts";
import type { Coverage } from "../calls/coverage.ts";
import { cancelledBy, type Ending, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live.ts";
import { reopen } from "../open/open.ts";
import { type Admitted, admit } from "../policy/admit.ts";
import type { Door } from "./door.ts";
import { approvalRequested, type Recorded } from "./record.ts";

declare const approved: unique symbol;

class ApprovedCall {
  declare readonly [approved]: true;
  readonly gate = "open";
  readonly live: LiveCall;
  readonly plan: ExportPlan;
  readonly grant: Grant;
  readonly pool_key: string;
  readonly attempt: number;
  readonly token: string | null;
  readonly place: Place | null;

  constructor(live: LiveCall, admitted: Admitted, token: string | null, place: Place | null) {
    this.live = live;
    this.plan = admitted.call.plan;
    this.grant = admitted.grant;
    this.pool_key = admitted.pool_key;
    this.attempt = admitted.call.delivery?.attempt ?? 1;
    this.token = token;
    this.place = place;
  }
}

export type Approved = ApprovedCall;

/** `ending` null: the call is no longer ours to end. */
export interface NotApproved {
  gate: "closed";
  ending: Ending | null;
}

export function approve(door: Door, recorded: Recorded): MaybePromise<Approved | NotApproved> {
  const { live, onward } = recorded;
  if (onward.kind === "run") return new ApprovedCall(live, onward.admitted, onward.token, onward.place);
  return ask(door, recorded, onward.approval);
}

async function ask(door: Door, recorded: Recorded, first: Approval): Promise<Approved | NotApproved> {
  const { live } = recorded;
  for (let approval = first; ; ) {
    const answer = await answerTo(door, live, approval);
    if (answer.kind !== "approved") return { gate: "closed", ending: endingOf(answer, live) };
    const checked = await checkAgain(door, recorded, approval);
    if (!("question" in checked)) return checked;
    approval = checked.question;
  }
}

async function answerTo(door: Door, live: LiveCall, approval: Approval): Promise<Answer> {
  live.stage = "approval";
  live.interrupt = () => {
    const why = typeof live.stopped === "object" ? live.stopped : null;
    void door.pending.end(approval.id, "cancelled", why === null ? "interrupt" : "revoked", why);
  };
  const waiting = approval.status === "pending" ? door.pending.wait(approval) : answerOf(approval);
  // A cancel that came before there was anything to interrupt.
  if (live.stopped !== null) live.interrupt();
  const answer = await waiting;
  live.interrupt = null;
  return answer;
}

/** Starts the call, or ends it, or has another question to ask about it. */
async function checkAgain(
  door: Door,
  recorded: Recorded,
  approval: Approval,
): Promise<Approved | NotApproved | { question: Approval }> {
  const { deps } = door;
  const { live } = recorded;
  const { row } = live;
  const wait = <T>(work: () => Promise<T>) => door.store_wait.run("an approved call", work);
  const admitted = await wait(() => admitAgain(door, recorded));
  if ("status" in admitted) return { gate: "closed", ending: admitted };
  live.checked_at = admitted.call.checked_at;
  const coverage = await wait(() => readCoverage(deps, admitted));
  if (coverage.digest !== approval.digest) return await askAgain(door, live, admitted, coverage, approval);
  live.approved = coverage;
  const max = admitted.call.plan.export.max_concurrency;
  const place = max === undefined ? null : door.gates.enter(admitted.call.plan.gate, max);
  const now = deps.clock.now();
  const minted = mintDelegation(deps, row, admitted.grant, now);
  const started_at = new Date(now).toISOString();
  const also = minted === null ? {} : { delegation: minted.delegation };
  let started = false;
  try {
    started = await wait(() => deps.store.invocations.start(row.id, row.fence, started_at, also));
  } finally {
    if (!started) place?.leave();
  }
  if (!started) return { gate: "closed", ending: null };
  row.status = "running";
  row.started_at = started_at;
  return new ApprovedCall(live, admitted, minted?.token ?? null, place);
}

/** What was approved is not what would run: the yes is worth nothing, and the next question says what changed. */
async function askAgain(
  door: Door,
  live: LiveCall,
  admitted: Admitted,
  coverage: Coverage,
  before: Approval,
): Promise<NotApproved | { question: Approval }> {
  const { deps } = door;
  const { row } = live;
  const changed = changedParts(await deps.store.approvals.covers(row, before.id), coverage.parts);
  const { plan } = admitted.call;
  const { binding, package: pack } = plan.bound;
  const next: InvocationRow = {
    ...row,
    binding_generation: binding.generation,
    package_version: pack.version,
    package_digest: pack.digest,
    grant: admitted.grant,
    class: admitted.grant.class,
    effect_class: plan.effect_class,
  };
  const now = deps.clock.now();
  const asked = followUpApproval(deps, admitted, next, coverage, now, before, changed);
  next.approval_id = asked.id;
  const { covers: _covers, ...question } = asked;
  const facts = { events: [approvalRequested(door, question, next, now)] };
  if (!(await deps.store.invocations.askAgain(next, asked, facts))) return { gate: "closed", ending: null };
  Object.assign(row, next);
  return { question };
}

/** The admission as of now; or the end, when it may no longer run. */
async function admitAgain(door: Door, recorded: Recorded): Promise<Admitted | Ending> {
  const { row } = recorded.live;
  const call = await reopen(door, row).catch((error: unknown) => {
    if (codeOf(error) === "binding.not_found") return null;
    throw error;
  });
  if (call === null) return changed("the binding was removed");
  const verdict = admit(call, door.around);
  if (verdict.verdict === "admitted") return verdict;
  const { code, message, details } = verdict;
  // A revocation counts before an answer does: the call ends in the same words wherever it is found.
  if (verdict.rule === "authority") return failedWith(code, message, { details });
  return failedWith(code, `the call is no longer admitted: ${message}`, { details });
}

function changed(what: string): Ending {
  return failedWith("approval.changed", `${what} after the approval was asked for`);
}

function endingOf(answer: Exclude<Answer, { kind: "approved" }>, live: LiveCall): Ending | null {
  switch (answer.kind) {
    case "rejected":
      return failedWith("approval.rejected", answer.feedback ?? "a person rejected this call");
    case "expired":
      return failedWith("approval.expired", "nobody answered the approval in time");
    case "cancelled":
      return cancelledBy(live.stopped ?? "shutdown");
    case "detached":
      return null;
  }
}
