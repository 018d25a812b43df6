/**
 * The shared state of all connections of one session: policy, counts, clock and open connections. One timer checks
 * all deadlines. Closing ends everything immediately. While the session is held, because no call is in flight,
 * nothing is resolved or dialed and no byte is forwarded; new and open connections wait for the next call. A
 * destination that the grant forbids is still refused immediately, because the call that caused it may be answered but
 * not recorded yet.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@backplane/ports";
import { dial } from "../destinations/dial.ts";
import type { EgressPolicy, Target } from "../destinations/policy.ts";
import type { RefusalLog } from "../destinations/refusals.ts";
import type { EgressLimits } from "./limits.ts";
import { ProxyConnection } from "./proxy-connection.ts";

const SWEEP_MS = 1_000;

/** One direction of a connection. */
export interface Flow {
  hold(held: boolean): void;
}

export class EgressState {
  readonly policy: EgressPolicy;
  readonly limits: EgressLimits;
  readonly clock: Clock;
  readonly refusals: RefusalLog;
  readonly meter: Meter;
  /** Connections to a destination: open ones, and all since the last reset. */
  active = 0;
  total = 0;
  closed = false;
  held: boolean;
  readonly #connections = new Set<ProxyConnection>();
  readonly #flows = new Set<Flow>();
  readonly #waiting: (() => void)[] = [];
  #sweep: Timer | null = null;

  constructor(policy: EgressPolicy, limits: EgressLimits, clock: Clock, refusals: RefusalLog, held: boolean) {
    this.held = held;
    this.policy = {
      ...policy,
      resolve: async (host, trusted) => {
        await this.whenReleased();
        return await policy.resolve(host, trusted);
      },
    };
    this.limits = limits;
    this.clock = clock;
    this.refusals = refusals;
    this.meter = new Meter(limits);
  }

  /** Returns null and closes the client if the session is closed or has too many sockets. */
  accept(client: Socket): ProxyConnection | null {
    client.on("error", () => {});
    if (this.closed || this.#connections.size >= this.limits.sockets) {
      if (!this.closed) this.refusals.add({ host: "", port: 0 }, "limit.connections");
      client.destroy();
      return null;
    }
    client.allowHalfOpen = true;
    const connection = new ProxyConnection(this, client, () => this.#connections.delete(connection));
    this.#connections.add(connection);
    this.#sweep ??= this.clock.after(SWEEP_MS, () => this.#sweepConnections());
    return connection;
  }

  dial(connection: ProxyConnection, { addresses, port }: Target): Promise<Socket | null> {
    return dial(addresses, port, {
      clock: this.clock,
      timeout_ms: this.limits.connect_ms,
      onSocket: (socket) => connection.addUpstream(socket),
      closed: () => connection.ended,
    });
  }

  /** Resolves when the session is not held. Callers must check `ended` afterwards. */
  whenReleased(): Promise<void> {
    return this.held ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve();
  }

  hold(held: boolean): void {
    if (this.held === held || this.closed) return;
    this.held = held;
    for (const flow of this.#flows) flow.hold(held);
    if (!held) for (const resume of this.#waiting.splice(0)) resume();
  }

  /** Registers a stream to be paused while the session is held. Returns a function that removes it. */
  addFlow(flow: Flow): () => void {
    this.#flows.add(flow);
    if (this.held) flow.hold(true);
    return () => this.#flows.delete(flow);
  }

  resetCounts(): void {
    this.meter.in = 0;
    this.meter.out = 0;
    this.total = 0;
    this.refusals.clear();
  }

  get sockets(): number {
    return this.#connections.size;
  }

  close(): void {
    this.closed = true;
    this.#sweep?.stop();
    this.#sweep = null;
    for (const connection of this.#connections) connection.end();
    for (const resume of this.#waiting.splice(0)) resume();
  }

  #sweepConnections(): void {
    const now = this.clock.monotonic();
    for (const connection of this.#connections) connection.checkDeadlines(now);
    this.#sweep =
      this.#connections.size === 0 ? null : this.clock.after(SWEEP_MS, () => this.#sweepConnections());
  }
}

/**
 * Counts bytes in both directions. Callers count a chunk before they forward it; a chunk that would exceed the limit is
 * not counted, and the method returns false.
 */
class Meter {
  in = 0;
  out = 0;
  readonly #limits: EgressLimits;

  constructor(limits: EgressLimits) {
    this.#limits = limits;
  }

  countOut(bytes: number): boolean {
    if (this.out + bytes > this.#limits.bytes_out) return false;
    this.out += bytes;
    return true;
  }

  countIn(bytes: number): boolean {
    if (this.in + bytes > this.#limits.bytes_in) return false;
    this.in += bytes;
    return true;
  }
}
