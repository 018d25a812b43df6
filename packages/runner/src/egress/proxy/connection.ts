/**
 * One client's connection from accept to end, with whatever was dialled for it. It first says where it wants to go
 * (`head`), then leads there; HTTP may begin again with another head.
 */
import type { Socket } from "node:net";
import type { Asked } from "../destinations/destination.ts";
import type { RefusalReason } from "../destinations/refusals.ts";
import type { Border } from "./egress-state.ts";

export class Passage {
  readonly border: Border;
  readonly client: Socket;
  /** The last that was asked for; what a refusal is recorded with. */
  asked: Asked = { host: "", port: 0 };
  ended = false;
  readonly #dialled = new Set<Socket>();
  readonly #born: number;
  /** Begin of the head, or of the present silence. */
  #since: number;
  #moved = false;
  #leads = 0;
  #heard = 0;
  #followed: Socket | null = null;
  #dismissed = false;
  readonly #gone: () => void;

  /** `gone`: nothing of it is left. */
  constructor(border: Border, client: Socket, gone: () => void) {
    this.border = border;
    this.client = client;
    this.#gone = gone;
    client.once("close", (broken) => {
      if (broken) return this.end();
      // What the client said before it left is still delivered.
      for (const socket of this.#dialled) socket.destroySoon();
      this.#left();
    });
    this.#born = this.#since = border.clock.monotonic();
  }

  /** Records it; what the client is told is up to its protocol. */
  refuse(reason: RefusalReason, detail?: string, asked: Asked = this.asked): void {
    if (!this.border.closed) this.border.refusals.add(asked, reason, detail);
  }

  /** Whatever goes wrong on the way ends this connection and nothing else. */
  watch(work: Promise<void>): void {
    work.catch((error: Error) => {
      this.refuse("request.malformed", error.message);
      this.end();
    });
  }

  /** Takes one of the places for connections that lead somewhere; false: there is none, and that is recorded. */
  lead(): boolean {
    const { border } = this;
    if (border.leading >= border.limits.connections || border.total >= border.limits.total_connections) {
      this.refuse("limit.connections");
      return false;
    }
    border.leading++;
    border.total++;
    this.#leads++;
    this.#moved = true;
    return true;
  }

  /** Back to a head, after an answer was given. */
  rest(): void {
    if (this.#leads === 0) return;
    this.#leads--;
    this.border.leading--;
    this.#since = this.border.clock.monotonic();
    this.#heard = this.client.bytesRead;
  }

  bring(socket: Socket): void {
    socket.on("error", () => {});
    this.#dialled.add(socket);
    socket.once("close", () => {
      this.#dialled.delete(socket);
      this.#left();
    });
    if (this.ended) socket.destroy();
  }

  /** The client ends with this socket, after it was given all that came. */
  follow(socket: Socket): void {
    this.#followed = socket;
    socket.once("close", (broken) => {
      if (this.#followed !== socket) return;
      if (broken) this.end();
      else this.client.destroySoon();
    });
  }

  /** Not needed any more. */
  drop(socket: Socket): void {
    this.#followed = null;
    socket.destroy();
  }

  /** The client has its answer, and nothing more is expected of it. */
  dismiss(): void {
    this.#dismissed = true;
    this.client.resume();
    this.client.end();
  }

  takeOut = (bytes: number): boolean => this.#take(this.border.meter.takeOut(bytes));

  takeIn = (bytes: number): boolean => this.#take(this.border.meter.takeIn(bytes));

  #take(taken: boolean): boolean {
    this.#moved = true;
    if (!taken && !this.ended) {
      this.refuse("limit.bytes");
      this.end();
    }
    return taken;
  }

  /** Slow beginnings, silence, and age end a connection; only an honest silence is no refusal. */
  look(now: number): void {
    const { head_ms, idle_ms, total_ms } = this.border.limits;
    // Whoever is held cannot be late.
    if (this.#moved || this.border.held) {
      this.#moved = false;
      this.#since = now;
    }
    const old = now - this.#born > total_ms;
    if (!old && now - this.#since <= (this.#leads > 0 ? idle_ms : head_ms)) return;
    const begun = this.#leads === 0 && this.client.bytesRead > this.#heard;
    if (!this.#dismissed && (old || begun)) this.refuse("limit.time");
    this.end();
  }

  end(): void {
    if (this.ended) return;
    this.ended = true;
    while (this.#leads > 0) this.rest();
    this.client.destroy();
    for (const socket of this.#dialled) socket.destroy();
    this.#gone();
  }

  #left(): void {
    if (this.client.destroyed && this.#dialled.size === 0) this.end();
  }
}
