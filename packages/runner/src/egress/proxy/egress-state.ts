/**
 * What all connections of one session share: its policy, counts, clock, and the list of who is on the way. One
 * timer watches them all while there are any; closing ends everything at once. While it is held, because no call is in
 * flight, nothing is decided and no byte moves: who comes waits for the next call, and who is there does too.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@backplane/ports";
import { dial } from "../destinations/dial.ts";
import type { Policy, Target } from "../destinations/policy.ts";
import type { RefusalRecord } from "../destinations/refusals.ts";
import { Passage } from "./connection.ts";
import type { EgressLimits } from "./limits.ts";

const SWEEP_MS = 1_000;

export interface Flow {
  hold(held: boolean): void;
}

export class Border {
  readonly policy: Policy;
  readonly limits: EgressLimits;
  readonly clock: Clock;
  readonly refusals: RefusalRecord;
  readonly meter: Meter;
  /** Led somewhere: now, and ever. */
  leading = 0;
  total = 0;
  closed = false;
  held: boolean;
  readonly #passages = new Set<Passage>();
  readonly #flows = new Set<Flow>();
  readonly #waiting: (() => void)[] = [];
  #sweep: Timer | null = null;

  constructor(policy: Policy, limits: EgressLimits, clock: Clock, refusals: RefusalRecord, held: boolean) {
    this.held = held;
    this.policy = policy;
    this.limits = limits;
    this.clock = clock;
    this.refusals = refusals;
    this.meter = new Meter(limits);
  }

  /** Null: there are too many sockets, and this one is gone. */
  enter(client: Socket): Passage | null {
    client.on("error", () => {});
    if (this.closed || this.#passages.size >= this.limits.sockets) {
      if (!this.closed) this.refusals.add({ host: "", port: 0 }, "limit.connections");
      client.destroy();
      return null;
    }
    client.allowHalfOpen = true;
    const passage = new Passage(this, client, () => this.#passages.delete(passage));
    this.#passages.add(passage);
    this.#sweep ??= this.clock.after(SWEEP_MS, () => this.#look());
    return passage;
  }

  dial(passage: Passage, { addresses, port }: Target): Promise<Socket | null> {
    return dial(addresses, port, {
      clock: this.clock,
      timeout_ms: this.limits.connect_ms,
      born: (socket) => passage.bring(socket),
      closed: () => passage.ended,
    });
  }

  /** Settles at once, or when a call begins; check `ended` afterwards. */
  opened(): Promise<void> {
    return this.held ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve();
  }

  hold(held: boolean): void {
    if (this.held === held || this.closed) return;
    this.held = held;
    for (const flow of this.#flows) flow.hold(held);
    if (!held) for (const go of this.#waiting.splice(0)) go();
  }

  /** Bytes on their way; held with the rest. Answers how to be rid of it. */
  join(flow: Flow): () => void {
    this.#flows.add(flow);
    if (this.held) flow.hold(true);
    return () => this.#flows.delete(flow);
  }

  renew(): void {
    this.meter.in = 0;
    this.meter.out = 0;
    this.total = 0;
    this.refusals.clear();
  }

  get sockets(): number {
    return this.#passages.size;
  }

  close(): void {
    this.closed = true;
    this.#sweep?.stop();
    this.#sweep = null;
    for (const passage of this.#passages) passage.end();
    for (const go of this.#waiting.splice(0)) go();
  }

  #look(): void {
    const now = this.clock.monotonic();
    for (const passage of this.#passages) passage.look(now);
    this.#sweep = this.#passages.size === 0 ? null : this.clock.after(SWEEP_MS, () => this.#look());
  }
}

/** Counts bytes in both directions. Callers ask before they forward a chunk. */
class Meter {
  in = 0;
  out = 0;
  readonly #limits: EgressLimits;

  constructor(limits: EgressLimits) {
    this.#limits = limits;
  }

  takeOut(bytes: number): boolean {
    if (this.out + bytes > this.#limits.bytes_out) return false;
    this.out += bytes;
    return true;
  }

  takeIn(bytes: number): boolean {
    if (this.in + bytes > this.#limits.bytes_in) return false;
    this.in += bytes;
    return true;
  }
}
