/**
 * Passes an approved call to the runner, as often as the retry rules and the deadline allow. The deadline runs on the
 * monotonic clock from here on: time in the queue counts, time awaiting approval does not.
 */

import {
  BackplaneError,
  codeOf,
  type EffectClass,
  type EgressRecord,
  ERROR_CODES,
  INVOCATION_LIMITS,
  type InvocationContext,
  type InvocationError,
  isErrorCode,
  isObject,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
  OPS,
  type PluginExport,
} from "@backplane/contract";
import type { InvocationRow, KernelDeps, RunOutcome, RunRequest } from "@backplane/ports";
import { effectiveConfig, isRemote, MAX_RENEWALS, narrowGrant } from "@backplane/registry";
import { recheck } from "../admission/admit.ts";
import { listChangedParts, readCoverage } from "../approval/coverage.ts";
import { workspaceOfCall } from "../calls/call-ids.ts";
import type { SlotReservation } from "../calls/concurrency.ts";
import { addAttempt } from "../calls/earlier-attempts.ts";
import { type CallEnding, cancelledBy, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import { createRedactor, type Redactor } from "../calls/redact.ts";
import { type Opened, reopen } from "../open/open.ts";
import { accept } from "./accept.ts";
import type { Approved } from "./approve.ts";
import { createCallListener } from "./call-listener.ts";
import type { Door } from "./door.ts";
import { isHarness, isInterrupted, mayRestart, startHarness } from "./start-harness.ts";
import { storeContent } from "./store-content.ts";

/** Resolves with null when another node owns the call now, or when a stopping gateway leaves a harness to recovery. */
export function run(door: Door, call: Approved): Promise<CallEnding | null> {
  const deadline = door.deps.clock.monotonic() + call.live.remaining_ms;
  return call.reservation === null
    ? runAttempts(door, call, deadline, null)
    : runQueued(door, call, deadline, call.reservation);
}

async function runQueued(
  door: Door,
  call: Approved,
  deadline: number,
  reservation: SlotReservation,
): Promise<CallEnding | null> {
  const { clock } = door.deps;
  const { live } = call;
  try {
    live.stage = "queued";
    const acquired = await reservation.acquire(deadline, (interrupt) => {
      live.interrupt = interrupt;
      if (live.stopped !== null) interrupt();
    });
    live.interrupt = null;
    if (isInterrupted(live)) return null;
    if (live.stopped !== null) return cancelledBy(live.stopped);
    if (!acquired) {
      return failedWith("timeout", "The deadline passed while the call was waiting for a free slot.");
    }
    return await runAttempts(door, call, deadline, new Date(clock.now()).toISOString());
  } finally {
    reservation.release();
  }
}

async function runAttempts(
  door: Door,
  call: Approved,
  deadline: number,
  started_at: string | null,
): Promise<CallEnding | null> {
  const { deps } = door;
  const { clock, host, runner, store } = deps;
  const { live, plan } = call;
  const { row } = live;
  live.stage = "running";
  const earlier_retries = row.retry_count;
  let renewals = 0;
  for (let attempts = 0; ; attempts++) {
    const retries = earlier_retries + attempts;
    const needs_no_secrets = call.grant.secret_slots.length === 0 && !isRemote(plan.bound);
    const secrets = needs_no_secrets
      ? {}
      : await retryUntilDeadline(door, deadline, () =>
          door.sign_in_tokens.readSecrets(plan.bound, call.grant),
        );
    if (clock.monotonic() - live.checked_at > FRESH_MS) {
      const refused = await retryUntilDeadline(door, deadline, () => recheckCall(door, call));
      if (refused !== null) return { ...refused, retry_count: retries };
    }
    const has_lapsed = !door.lease.isHeld() || live.lease_lapses !== door.lease.lapses;
    if (has_lapsed && !(await confirmOwnership(door, live, deadline))) return null;
    const remaining_ms = deadline - clock.monotonic();
    if (isInterrupted(live)) return null;
    if (live.stopped !== null) return cancelledBy(live.stopped, retries);
    if (remaining_ms <= 0) {
      return failedWith("timeout", "The deadline passed before the call was dispatched.", {
        retry_count: retries,
      });
    }
    const redactor = createRedactor(listConfidentialValues(secrets, call.token));
    const harness_start = isHarness(row)
      ? await retryUntilDeadline(door, deadline, () => startHarness(door, live, plan.export))
      : null;
    if (harness_start?.kind === "lost") return null;
    if (harness_start?.kind === "refused") return { ...harness_start.ending, retry_count: retries };
    const attempt = call.attempt + attempts;
    const body = harness_start?.body ?? buildBody(row, attempt);
    const request = buildRunRequest(door, call, attempt, Math.ceil(remaining_ms), secrets, body);
    const listener = createCallListener(door, live, plan.export, redactor);
    const attempt_started = clock.now();
    let outcome = await runner.run(request, listener);
    const flushing = listener.flush?.();
    // Not awaited if it is not a promise: an await costs a microtask even then (benchmark http.invoke).
    if (flushing !== undefined) await flushing;
    if (outcome.dispatched) live.dispatched = true;
    if (live.lost || isInterrupted(live, outcome)) return null;
    if (outcome.error?.code === "sign_in.needed" && live.stopped === null) {
      const challenge = await door.sign_in_tokens.handleChallenge(plan.bound, outcome.error);
      // The server rejected the token before it ran anything, so a renewal does not count as an attempt.
      if (challenge === null && renewals++ < MAX_RENEWALS) {
        attempts--;
        continue;
      }
      if (challenge !== null) {
        const { code, message, details = {} } = challenge;
        outcome = { ...outcome, error: { code, message, details: details as JsonObject } };
      }
    }
    live.egress = mergeEgress(live.egress, outcome.egress, redactor);
    const pause = computeBackoff(
      host.retry.base_ms,
      isHarness(row) ? Math.min(live.starts + 1, 6) : attempts + 1,
    );
    const should_retry =
      live.stopped === null &&
      (isHarness(row) || attempts + 1 < host.retry.max_attempts) &&
      mayRetry(row, outcome) &&
      clock.monotonic() + pause < deadline;
    if (!should_retry) {
      const accepted = accept(plan, outcome, retries, started_at, redactor);
      const stored = mapMaybe(accepted, (ending) => storeContent(deps, row, call.grant, ending));
      return applyRevocation(live, stored);
    }
    const attempt_ended = clock.now();
    await pauseUnlessStopped(deps, live, pause);
    if (isInterrupted(live)) return null;
    if (live.stopped !== null) return cancelledBy(live.stopped, retries);
    row.earlier_attempts = addAttempt(row, {
      started_at: new Date(attempt_started).toISOString(),
      ended_at: attempt_ended,
      retried_at: clock.now(),
      reason: "retry",
      error: redactError(outcome.error, redactor),
    });
    const is_owner = await retryUntilDeadline(door, deadline, () =>
      store.invocations.recordRetry({ ...row, retry_count: retries + 1 }),
    );
    if (!is_owner) return null;
  }
}

/** How old the checks of a call may be when it starts. A revocation takes effect within a second. */
const FRESH_MS = 250;

/** Checks a call again that waited in the queue, for secrets or between two attempts. */
async function recheckCall(door: Door, { live, grant }: Approved): Promise<CallEnding | null> {
  const call = await reopen(door, live.row).catch((error: unknown) => {
    if (codeOf(error) === "binding.not_found") return null;
    throw error;
  });
  if (call === null) {
    const { binding_id } = live.row;
    return failedWith("binding.not_active", `The binding ${binding_id} was removed.`, {
      details: { binding_id },
    });
  }
  live.checked_at = call.checked_at;
  const refused = recheck(call, grant, door.state);
  if (refused === null) return await recheckApproval(door, live, call);
  const { code, message, details, fix } = refused;
  return failedWith(code, message, { details: fix === undefined ? details : { ...details, fix } });
}

/** An approval covers one exact call, which may have changed while it waited in the queue or between two attempts. */
async function recheckApproval(door: Door, live: LiveCall, call: Opened): Promise<CallEnding | null> {
  if (live.approved === null) return null;
  // `admit` would also apply rules for new calls, such as a full queue, and a refusal would skip the comparison.
  const { grant } = narrowGrant(call.plan, call.ceiling, call.scope);
  const { digest, parts } = await readCoverage(door.deps, { call, grant });
  if (digest === live.approved.digest) return null;
  const changed = listChangedParts(live.approved.parts, parts);
  const message = `The call changed after it was approved: ${changed.join(", ")}. Call again.`;
  return failedWith("approval.changed", message, { details: { changed } });
}

/** A call that was stopped by a revocation ends with that reason, unless it had already succeeded. */
function applyRevocation(
  { stopped }: LiveCall,
  accepted: MaybePromise<CallEnding>,
): MaybePromise<CallEnding> {
  if (stopped === null || typeof stopped === "string") return accepted;
  const { status, error } = cancelledBy(stopped);
  return mapMaybe(accepted, (ending) =>
    ending.status === "succeeded" ? ending : { ...ending, status, error },
  );
}

/** While the store is unavailable, retries until the deadline of the call. */
function retryUntilDeadline<T>(door: Door, deadline: number, work: () => Promise<T>): Promise<T> {
  return door.store_wait.run("a call", work, undefined, Math.max(0, deadline - door.deps.clock.monotonic()));
}

/**
 * The gateway's lease expired after the row was written, so another node may have claimed the call. Nothing is
 * dispatched until the lease is renewed and the row is known to still have our fence.
 */
async function confirmOwnership(door: Door, live: LiveCall, deadline: number): Promise<boolean> {
  const { clock, store } = door.deps;
  const { row } = live;
  await door.lease.confirm(Math.max(0, deadline - clock.monotonic()));
  live.lease_lapses = door.lease.lapses;
  const stored = await retryUntilDeadline(door, deadline, () => store.invocations.get(row, row.id));
  return stored !== null && stored.status === "running" && stored.fence === row.fence;
}

/** The record covers all attempts, so the refused connections of earlier attempts stay in it. */
function mergeEgress(
  earlier: EgressRecord | null,
  latest: EgressRecord | null,
  redactor: Redactor | null,
): EgressRecord | null {
  if (latest === null) return earlier;
  const clean =
    redactor === null ? latest : (redactor.json(latest as unknown as Json) as unknown as EgressRecord);
  if (earlier === null) return clean;
  return {
    refused: earlier.refused + clean.refused,
    refusals: [...earlier.refusals, ...clean.refusals].slice(0, INVOCATION_LIMITS.refusals),
  };
}

function redactError(error: RunOutcome["error"], redactor: Redactor | null): InvocationError | null {
  if (error === null) return null;
  const { code, message } = error;
  return redactor === null
    ? { code, message }
    : (redactor.json({ code, message }) as unknown as InvocationError);
}

function listConfidentialValues(secrets: Record<string, string>, token: string | null): string[] {
  const values = Object.values(secrets);
  if (token !== null) values.push(token);
  return values;
}

function pauseUnlessStopped(deps: Pick<KernelDeps, "clock">, live: LiveCall, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      timer.stop();
      live.interrupt = null;
      resolve();
    };
    const timer = deps.clock.after(ms, wake);
    live.interrupt = wake;
    if (live.stopped !== null) wake();
  });
}

/**
 * inv.retry: a `retryable_failure` is retried if the effect class allows a repetition under the same key. A failure
 * that never reached the plugin's code is retried for every effect class, if its code is a retryable wire error other
 * than `timeout` and `crash_loop`, or if the process started too slowly. A `failed` from the plugin's code is
 * never retried. Hook deliveries are retried by the outbox instead, and a harness follows `mayRestart`.
 */
function mayRetry(row: InvocationRow, outcome: RunOutcome): boolean {
  if (isDelivery(row)) return false;
  if (isHarness(row)) return mayRestart(outcome);
  if (outcome.status === "retryable_failure") return !outcome.dispatched || isRepeatable(row.effect_class);
  if (outcome.status !== "failed" || outcome.dispatched) return false;
  // A process that started too slowly has run nothing, and the next start may be faster.
  if (outcome.error?.details?.slow_start === true) return true;
  const code = outcome.error?.code;
  if (code === "timeout" || code === "crash_loop" || !isErrorCode(code)) return false;
  return ERROR_CODES[code].family === "wire" && ERROR_CODES[code].retryable;
}

/** Whether it does no harm to repeat an execution. */
export function isRepeatable(effect_class: EffectClass): boolean {
  return effect_class === "read_only" || effect_class === "idempotent_write";
}

export function isDelivery(row: InvocationRow): boolean {
  return row.export_kind === "hook" && row.requested_by === "kernel";
}

function computeBackoff(base_ms: number, attempt: number): number {
  return base_ms * 2 ** (attempt - 1);
}

/** The input of a request: an approved call, or a replayed call, whose row is not stored. */
type DispatchedCall = Pick<Approved, "plan" | "grant" | "pool_key" | "token"> & {
  live: Pick<LiveCall, "row">;
};

/**
 * Builds the request for one attempt, for the runner and the plugin. Secret values go into the request and nowhere
 * else. Ids that the caller did not provide are omitted.
 */
export function buildRunRequest(
  door: Pick<Door, "isWatched"> & { deps: Pick<KernelDeps, "clock" | "gateway" | "host"> },
  call: DispatchedCall,
  attempt: number,
  timeout_ms: number,
  secrets: Record<string, string>,
  body: JsonObject,
): RunRequest {
  const { row } = call.live;
  const { binding, package: pack } = call.plan.bound;
  return {
    invocation_id: row.id,
    attempt,
    package: {
      package_id: pack.package_id,
      version: pack.version,
      digest: pack.digest,
      runtime: pack.manifest.runtime,
    },
    export_id: row.export_id,
    ...dialectFieldsOf(call.plan.export),
    op: OPS[row.export_kind],
    ...(row.turn === null ? {} : { tool_call_id: row.turn.tool_call_id }),
    body,
    context: buildContext(door, call, timeout_ms, secrets),
    grant: call.grant,
    class: call.grant.class,
    timeout_ms,
    pool_key: call.pool_key,
    binding_id: binding.binding_id,
  };
}

function dialectFieldsOf(item: PluginExport): Pick<RunRequest, "native_name" | "param_headers"> {
  if (item.kind !== "tool") return {};
  const { tool_name, native_name = tool_name, param_headers } = item.tool;
  return {
    ...(native_name === undefined ? {} : { native_name }),
    ...(param_headers === undefined ? {} : { param_headers }),
  };
}

function buildContext(
  { deps, isWatched }: Parameters<typeof buildRunRequest>[0],
  call: DispatchedCall,
  timeout_ms: number,
  secrets: Record<string, string>,
): InvocationContext {
  const { row } = call.live;
  const context: InvocationContext = {
    invocation_id: row.id,
    trace_id: row.trace_id,
    org_id: row.org_id,
    deadline_at: new Date(deps.clock.now() + timeout_ms).toISOString(),
    gateway: { base_url: deps.gateway.base_url(), scopes: call.grant.gateway_api_scopes },
    config: effectiveConfig(deps.host, call.plan.bound),
    secrets,
    grant: call.grant,
  };
  if (row.project_id !== null) context.project_id = row.project_id;
  if (row.session_id !== null) {
    const { org_id, project_id, session_id } = row;
    const workspace = workspaceOfCall(row);
    context.session_id = session_id;
    // A delivery runs in the background, so there is nobody to ask even while a person watches the session.
    if (!isDelivery(row) && isWatched({ scope: { org_id, project_id }, workspace, session_id }))
      context.interactive = true;
  }
  if (row.chain_id !== null) context.chain_id = row.chain_id;
  if (row.run_id !== null) context.run_id = row.run_id;
  if (call.token !== null) context.gateway.delegation_token = call.token;
  return context;
}

function buildBody(row: InvocationRow, attempt: number): JsonObject {
  switch (row.export_kind) {
    case "tool":
      return { tool_execution_id: row.execution_id, input: row.input };
    case "hook":
      return { delivery_id: row.execution_id, attempt, event: row.input };
    case "compactor":
      return { ...toObject(row.input), compaction_id: row.execution_id };
    case "harness":
      // Only startHarness decides whether the harness starts or continues.
      throw new BackplaneError("internal");
  }
}

function toObject(value: Json): JsonObject {
  return isObject(value) ? value : {};
}
