/**
 * Hands an approved call to the runner, as often as the retry rules and the deadline allow. The deadline runs
 * on the monotonic clock from here on; waiting for a slot counts, waiting for an approval does not.
 */

import {
  codeOf,
  type EgressRecord,
  INVOCATION_LIMITS,
  type Json,
  type JsonObject,
  type MaybePromise,
  mapMaybe,
} from "@backplane/contract";
import type { KernelDeps, RunListener } from "@backplane/ports";
import { isRemote, MAX_RENEWALS } from "@backplane/registry";
import { changedParts, readCoverage } from "../approval/coverage.ts";
import { answerAsk } from "../calls/answer-ask.ts";
import type { Place } from "../calls/concurrency.ts";
import { cancelledBy, type Ending, failedWith } from "../calls/ending.ts";
import { EventTape } from "../calls/event-tape.ts";
import type { LiveCall } from "../calls/live.ts";
import { createRedactor, type PluginEvent, type Redactor, redactEvents } from "../calls/redact.ts";
import { backoff, mayRetry } from "../calls/retry.ts";
import { type Opened, reopen } from "../open/open.ts";
import { admit, refusedSince } from "../policy/admit.ts";
import { accept } from "./accept.ts";
import type { Approved } from "./approve.ts";
import { runOrder } from "./context.ts";
import type { Door } from "./door.ts";

/** null: another node holds the row now and will end it. */
export function run(door: Door, call: Approved): Promise<Ending | null> {
  const deadline = door.deps.clock.monotonic() + call.live.left_ms;
  return call.place === null
    ? attempts(door, call, deadline, null)
    : inLine(door, call, deadline, call.place);
}

async function inLine(door: Door, call: Approved, deadline: number, place: Place): Promise<Ending | null> {
  const { clock } = door.deps;
  const { live } = call;
  try {
    live.stage = "queued";
    const held = await place.acquire(deadline, (interrupt) => {
      live.interrupt = interrupt;
      if (live.stopped !== null) interrupt();
    });
    live.interrupt = null;
    if (live.stopped !== null) return cancelledBy(live.stopped);
    if (!held) return failedWith("timeout", "the deadline passed while the call waited for a free slot");
    return await attempts(door, call, deadline, new Date(clock.now()).toISOString());
  } finally {
    place.leave();
  }
}

async function attempts(
  door: Door,
  call: Approved,
  deadline: number,
  started_at: string | null,
): Promise<Ending | null> {
  const { deps } = door;
  const { clock, host, runner, store } = deps;
  const { live, plan } = call;
  const { row } = live;
  live.stage = "running";
  const before = row.retry_count;
  let renewals = 0;
  for (let tried = 0; ; tried++) {
    const retries = before + tried;
    const bare = call.grant.secret_slots.length === 0 && !isRemote(plan.bound);
    const secrets = bare
      ? {}
      : await whileTimeIsLeft(door, deadline, () => door.tokens.readSecrets(plan.bound, call.grant));
    if (clock.monotonic() - live.checked_at > FRESH_MS) {
      const refused = await whileTimeIsLeft(door, deadline, () => refusedByNow(door, call));
      if (refused !== null) return { ...refused, retry_count: retries };
    }
    const lapsed = !door.lease.held() || live.lapses !== door.lease.lapses;
    if (lapsed && !(await stillOurs(door, live, deadline))) return null;
    const left = deadline - clock.monotonic();
    if (live.stopped !== null) return cancelledBy(live.stopped, retries);
    if (left <= 0) return failedWith("timeout", "the deadline passed", { retry_count: retries });
    const redactor = createRedactor(confidential(secrets, call.token));
    const order = runOrder(door, call, call.attempt + tried, Math.ceil(left), secrets);
    const events = listenerOf(deps, live, redactor);
    let outcome = await runner.run(order, events);
    events.flush?.();
    if (outcome.error?.code === "sign_in.needed" && live.stopped === null) {
      const told = await door.tokens.handleChallenge(plan.bound, outcome.error);
      // The server did not let it in, so nothing was tried yet.
      if (told === null && renewals++ < MAX_RENEWALS) {
        tried--;
        continue;
      }
      if (told !== null) {
        const { code, message, details = {} } = told;
        outcome = { ...outcome, error: { code, message, details: details as JsonObject } };
      }
    }
    live.egress = withEarlier(live.egress, outcome.egress, redactor);
    const pause = backoff(host.retry.base_ms, tried + 1);
    const again =
      live.stopped === null &&
      tried + 1 < host.retry.max_attempts &&
      mayRetry(row, outcome) &&
      clock.monotonic() + pause < deadline;
    if (!again) return endOf(live, accept(plan, outcome, retries, started_at, redactor));
    await interruptible(deps, live, pause);
    if (live.stopped !== null) return cancelledBy(live.stopped, retries);
    const counted = await whileTimeIsLeft(door, deadline, () =>
      store.invocations.retried(row.id, row.fence, retries + 1),
    );
    if (!counted) return null;
  }
}

/** What is known of a call may be this old when it starts; a revocation counts within a second. */
const FRESH_MS = 250;

/** A call that waited in line, for secrets or between two tries is held against the rules as they are now. */
async function refusedByNow(door: Door, { live, grant }: Approved): Promise<Ending | null> {
  const call = await reopen(door, live.row).catch((error: unknown) => {
    if (codeOf(error) === "binding.not_found") return null;
    throw error;
  });
  if (call === null) {
    const { binding_id } = live.row;
    return failedWith("binding.not_active", `the binding ${binding_id} was removed`, {
      details: { binding_id },
    });
  }
  live.checked_at = call.checked_at;
  const refused = refusedSince(call, grant, door.around);
  if (refused === null) return await changedSince(door, live, call);
  const { code, message, details, fix } = refused;
  return failedWith(code, message, { details: fix === undefined ? details : { ...details, fix } });
}

/** A yes holds for what it was asked about: in line or between two tries that may have become something else. */
async function changedSince(door: Door, live: LiveCall, call: Opened): Promise<Ending | null> {
  if (live.approved === null) return null;
  const verdict = admit(call, door.around);
  if (verdict.verdict === "refused") return null;
  const { digest, parts } = await readCoverage(door.deps, verdict);
  if (digest === live.approved.digest) return null;
  const changed = changedParts(live.approved.parts, parts);
  const message = `${changed.join(", ")} changed after the call was approved`;
  return failedWith("approval.changed", message, { details: { changed } });
}

/** A call that was told to stop because its authority is gone ends with that reason, unless it had succeeded. */
function endOf({ stopped }: LiveCall, accepted: MaybePromise<Ending>): MaybePromise<Ending> {
  if (stopped === null || typeof stopped === "string") return accepted;
  const { status, error } = cancelledBy(stopped);
  return mapMaybe(accepted, (ending) =>
    ending.status === "succeeded" ? ending : { ...ending, status, error },
  );
}

/** A store that is away is waited for, as long as the call has time. */
function whileTimeIsLeft<T>(door: Door, deadline: number, work: () => Promise<T>): Promise<T> {
  return door.store_wait.run("a call", work, undefined, Math.max(0, deadline - door.deps.clock.monotonic()));
}

/**
 * The gateway's lease has run out since the row was written, so another may have taken this call over, although the row was
 * written. Nothing is dispatched before the lease is renewed and the row is seen to be ours.
 */
async function stillOurs(door: Door, live: LiveCall, deadline: number): Promise<boolean> {
  const { clock, store } = door.deps;
  const { row } = live;
  await door.lease.confirm(Math.max(0, deadline - clock.monotonic()));
  live.lapses = door.lease.lapses;
  const now = await whileTimeIsLeft(door, deadline, () => store.invocations.get(row, row.id));
  return now !== null && now.status === "running" && now.fence === row.fence;
}

/** The record is of the whole invocation, so what earlier attempts were refused stays on it. */
function withEarlier(
  earlier: EgressRecord | null,
  now: EgressRecord | null,
  redactor: Redactor | null,
): EgressRecord | null {
  if (now === null) return earlier;
  const found = redactor === null ? now : (redactor.json(now as unknown as Json) as unknown as EgressRecord);
  if (earlier === null) return found;
  return {
    refused: earlier.refused + found.refused,
    refusals: [...earlier.refusals, ...found.refusals].slice(0, INVOCATION_LIMITS.refusals),
  };
}

function confidential(secrets: Record<string, string>, token: string | null): string[] {
  const values = Object.values(secrets);
  if (token !== null) values.push(token);
  return values;
}

function listenerOf(
  deps: KernelDeps,
  live: LiveCall,
  redactor: Redactor | null,
): RunListener & { flush?: () => void } {
  const write = (event: PluginEvent) => {
    if (live.stage !== "settling") tapeOf(deps, live).write(event);
  };
  // Without it a plugin knows that nobody is there to ask.
  const ask: RunListener["ask"] =
    live.ask === null && live.lend === null
      ? undefined
      : (method, params, key) => answerAsk(live, write, redactor, method, params, key);
  const asking = ask === undefined ? undefined : { ask };
  if (redactor === null) return { event: write, ...asking };
  const stream = redactEvents(redactor, write);
  return { event: (event) => stream.take(event), flush: () => stream.flush(), ...asking };
}

/** Made when the first event or the first watcher comes: most calls have neither. */
export function tapeOf(deps: Pick<KernelDeps, "store" | "clock">, live: LiveCall): EventTape {
  live.tape ??= new EventTape(live.row.id, deps.store.invocations, deps.clock, live.last_seq);
  return live.tape;
}

function interruptible(deps: Pick<KernelDeps, "clock">, live: LiveCall, ms: number): Promise<void> {
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
