/**
 * Requests of the stateless revision that wait for answers: the client was told what is asked and sends the request again
 * with `inputResponses` and the `requestState` that it got. The state is a random handle, so nothing in it can be forged;
 * it is its caller's alone and good for one use. What was called goes on meanwhile, under its own deadline.
 */
import { hash, randomBytes } from "node:crypto";
import { canonicalJson, type JsonObject } from "@backplane/contract";
import type { Caller, Clock, Timer } from "@backplane/kernel";
import { RPC, RpcError, type RpcRequest } from "./json-rpc.ts";
import type { Work } from "./work.ts";

const PARKED = 1_000;
/** So that one caller leaves room for the others. */
const PER_CALLER = 100;
const PATIENCE_MS = 600_000;

interface Place {
  work: Work;
  owner: string;
  print: string;
  timer: Timer;
}

export class Parked {
  readonly #clock: Clock;
  readonly #places = new Map<string, Place>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Null: too many wait already. */
  park(caller: Caller, request: RpcRequest, work: Work): string | null {
    const owner = ownerOf(caller);
    if (this.#places.size >= PARKED || this.#placesOf(owner) >= PER_CALLER) return null;
    const state = randomBytes(24).toString("base64url");
    const timer = this.#clock.after(PATIENCE_MS, () => {
      this.#places.delete(state);
      work.questions.close();
    });
    this.#places.set(state, { work, owner, print: printOf(request), timer });
    void work.result.catch(() => undefined).then(() => this.#forgetLater(state));
    return state;
  }

  /** Throws for a state that was changed, used up, or belongs to another caller or request. */
  take(caller: Caller, request: RpcRequest, state: unknown): Work {
    const place = typeof state === "string" ? this.#places.get(state) : undefined;
    if (place === undefined || place.owner !== ownerOf(caller) || place.print !== printOf(request))
      throw new RpcError(RPC.invalid_params, "params.requestState is none that waits for this request");
    this.#places.delete(state as string);
    place.timer.stop();
    return place.work;
  }

  close(): void {
    for (const { timer, work } of this.#places.values()) {
      timer.stop();
      work.questions.close();
    }
    this.#places.clear();
  }

  #placesOf(owner: string): number {
    let count = 0;
    for (const place of this.#places.values()) if (place.owner === owner) count++;
    return count;
  }

  /** An ended request keeps its answer for a client that still comes for it. */
  #forgetLater(state: string): void {
    const place = this.#places.get(state);
    if (place === undefined) return;
    place.timer.stop();
    place.timer = this.#clock.after(PATIENCE_MS, () => this.#places.delete(state));
  }
}

function ownerOf({ actor, scope }: Caller): string {
  return `${actor}\n${scope.org_id}\n${scope.project_id}`;
}

/** What the request asks for; the parts that change with every round are left out. */
function printOf({ method, params }: RpcRequest): string {
  const { _meta: _m, inputResponses: _r, requestState: _s, ...rest } = params as JsonObject;
  return hash("sha256", canonicalJson({ method, rest }));
}
