/**
 * One client connection with the sockets that were dialed for it. The client first requests a destination (the head),
 * then exchanges bytes with it. An HTTP client may request another destination after that.
 */
import type { Socket } from "node:net";
import type { Destination } from "../destinations/destination.ts";
import type { RefusalReason } from "../destinations/refusals.ts";
import type { EgressState } from "./egress-state.ts";

export class ProxyConnection {
  readonly state: EgressState;
  readonly client: Socket;
  /** The last requested destination. Refusals are recorded with it. */
  destination: Destination = { host: "", port: 0 };
  ended = false;
  readonly #upstreams = new Set<Socket>();
  readonly #opened_at: number;
  /** When the head started, or when the connection last had traffic. */
  #idle_since: number;
  #had_traffic = false;
  #slots = 0;
  #bytes_at_release = 0;
  #closes_with: Socket | null = null;
  #finished = false;
  readonly #onEnd: () => void;

  /** `onEnd` is called once, when the connection has ended. */
  constructor(state: EgressState, client: Socket, onEnd: () => void) {
    this.state = state;
    this.client = client;
    this.#onEnd = onEnd;
    client.once("close", (broken) => {
      if (broken) return this.end();
      // Bytes that the client sent before it closed are still delivered.
      for (const socket of this.#upstreams) socket.destroySoon();
      this.#endIfClosed();
    });
    this.#opened_at = this.#idle_since = state.clock.monotonic();
  }

  /** Records a refusal. The response to the client depends on its protocol. */
  refuse(reason: RefusalReason, detail?: string, destination: Destination = this.destination): void {
    if (!this.state.closed) this.state.refusals.add(destination, reason, detail);
  }

  /** An unexpected error ends this connection only. */
  endOnError(work: Promise<void>): void {
    work.catch((error: Error) => {
      this.refuse("request.malformed", error.message);
      this.end();
    });
  }

  /** Counts a connection to a destination. False, with a recorded refusal, when the limit is reached. */
  acquireSlot(): boolean {
    const { state } = this;
    if (state.active >= state.limits.connections || state.total >= state.limits.total_connections) {
      this.refuse("limit.connections");
      return false;
    }
    state.active++;
    state.total++;
    this.#slots++;
    this.#had_traffic = true;
    return true;
  }

  /** Called when the client no longer uses a destination and may request another one. */
  releaseSlot(): void {
    if (this.#slots === 0) return;
    this.#slots--;
    this.state.active--;
    this.#idle_since = this.state.clock.monotonic();
    this.#bytes_at_release = this.client.bytesRead;
  }

  addUpstream(socket: Socket): void {
    socket.on("error", () => {});
    this.#upstreams.add(socket);
    socket.once("close", () => {
      this.#upstreams.delete(socket);
      this.#endIfClosed();
    });
    if (this.ended) socket.destroy();
  }

  /** Closes the client when this socket closes, after all received bytes were delivered. */
  closeWith(socket: Socket): void {
    this.#closes_with = socket;
    socket.once("close", (broken) => {
      if (this.#closes_with !== socket) return;
      if (broken) this.end();
      else this.client.destroySoon();
    });
  }

  /** Closes a socket that is no longer needed. */
  discardUpstream(socket: Socket): void {
    this.#closes_with = null;
    socket.destroy();
  }

  /** Ends the connection after the client has received its response. */
  finish(): void {
    this.#finished = true;
    this.client.resume();
    this.client.end();
  }

  countOut = (bytes: number): boolean => this.#endIfOverLimit(this.state.meter.countOut(bytes));

  countIn = (bytes: number): boolean => this.#endIfOverLimit(this.state.meter.countIn(bytes));

  #endIfOverLimit(within_limit: boolean): boolean {
    this.#had_traffic = true;
    if (!within_limit && !this.ended) {
      this.refuse("limit.bytes");
      this.end();
    }
    return within_limit;
  }

  /**
   * Ends the connection if its head is slow, if it had no traffic for too long, or if it is over the maximum age. A
   * connection that is merely idle is not recorded as refused.
   */
  checkDeadlines(now: number): void {
    const { head_ms, idle_ms, total_ms } = this.state.limits;
    // A held connection cannot make progress.
    if (this.#had_traffic || this.state.held) {
      this.#had_traffic = false;
      this.#idle_since = now;
    }
    const is_too_old = now - this.#opened_at > total_ms;
    if (!is_too_old && now - this.#idle_since <= (this.#slots > 0 ? idle_ms : head_ms)) return;
    const head_started = this.#slots === 0 && this.client.bytesRead > this.#bytes_at_release;
    if (!this.#finished && (is_too_old || head_started)) this.refuse("limit.time");
    this.end();
  }

  end(): void {
    if (this.ended) return;
    this.ended = true;
    while (this.#slots > 0) this.releaseSlot();
    this.client.destroy();
    for (const socket of this.#upstreams) socket.destroy();
    this.#onEnd();
  }

  #endIfClosed(): void {
    if (this.client.destroyed && this.#upstreams.size === 0) this.end();
  }
}
