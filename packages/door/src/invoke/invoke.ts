/**
 * The one door. Every call of a tool, hook, compactor or harness, whoever asks, reads top to bottom: open,
 * admit, record, approve, run, settle. Each step takes the branded value of the one before, so a gate that
 * is skipped does not compile. What is told comes from the outbox rows that record and settle write.
 */

import { BackplaneError, codeOf, type Invocation, toBackplaneError, withFix } from "@backplane/contract";
import type { Ticket } from "@backplane/ports";
import { type Ending, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live.ts";
import { type InvokeRequest, open } from "../open/open.ts";
import { admit } from "../policy/admit.ts";
import { approve } from "./approve.ts";
import type { Door } from "./door.ts";
import { publicInvocation, type Recorded, record } from "./record.ts";
import { run } from "./run.ts";
import { letGo, settle } from "./settle.ts";

/** Resolves when the row is on disk. */
export async function invoke(door: Door, request: InvokeRequest): Promise<Ticket> {
  refuseEarly(door);
  const opened = await open(door, request);
  const recorded = await record(door, admit(opened, door.around));
  recorded.live.ask = request.ask ?? null;
  const { caller, context, plan } = opened;
  recorded.live.lend = door.lend(door, recorded.live, { caller, context, bound: plan.bound });
  void carry(door, recorded);
  return new LiveTicket(recorded.live);
}

/** A class, because an accessor in an object literal is a hidden class of its own for every call. */
class LiveTicket implements Ticket {
  readonly id: string;
  readonly settled: Promise<Invocation>;
  readonly #live: LiveCall;

  constructor(live: LiveCall) {
    this.id = live.row.id;
    this.settled = live.settled;
    this.#live = live;
  }

  get status(): Invocation["status"] {
    return this.#live.row.status;
  }

  get invocation(): Invocation {
    return publicInvocation(this.#live.row);
  }

  get events(): number {
    return this.#live.tape?.seq ?? this.#live.last_seq;
  }
}

/** From a recorded call to its end. Never rejects: whatever happens, the row is settled. */
export async function carry(door: Door, recorded: Recorded): Promise<void> {
  const { live } = recorded;
  const ending = await passThrough(door, recorded).catch((error: unknown) =>
    broken(door, live.row.id, error),
  );
  if (ending === null) await letGo(door, live);
  else await settle(door, live, ending);
}

async function passThrough(door: Door, recorded: Recorded): Promise<Ending | null> {
  const asked = approve(door, recorded);
  const approved = asked instanceof Promise ? await asked : asked;
  return approved.gate === "open" ? await run(door, approved) : approved.ending;
}

function broken(door: Door, invocation_id: string, error: unknown): Ending {
  if (codeOf(error) === undefined) door.deps.log.error({ err: error, invocation_id }, "a call broke inside");
  const known = toBackplaneError(error);
  return failedWith(known.code, known.message, { details: withFix(known) });
}

/** Before anything is read or written. */
function refuseEarly(door: Door): void {
  if (door.around.stopping) throw new BackplaneError("gateway_stopping");
  if (door.live.size - door.pending.size >= door.deps.host.max_running) {
    throw new BackplaneError("request.overloaded", undefined, { details: { retry_after_ms: 1_000 } });
  }
}
