/**
 * Calls of the stateless revision that await answers. The client received the questions and sends the request again
 * with `inputResponses` and its `requestState`. The state is a random handle that cannot be forged, belongs to one
 * caller and works once. The call itself continues in the meantime, under its own deadline.
 */
import { hash, randomBytes } from "node:crypto";
import { canonicalJson, type JsonObject, MCP_ERRORS } from "@backplane/contract";
import type { Caller, Clock, Timer } from "@backplane/ports";
import { type McpClientRequest, McpError } from "../protocol/json-rpc.ts";
import type { UpstreamCall } from "./upstream-call.ts";

const MAX_SUSPENDED = 1_000;
const MAX_PER_CALLER = 100;
const EXPIRY_MS = 600_000;

interface SuspendedCall {
  call: UpstreamCall;
  owner: string;
  request_digest: string;
  timer: Timer;
}

export class SuspendedCalls {
  readonly #clock: Clock;
  readonly #calls = new Map<string, SuspendedCall>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the `requestState`; null when too many calls are suspended. */
  suspend(caller: Caller, request: McpClientRequest, call: UpstreamCall): string | null {
    const owner = ownerOf(caller);
    if (this.#calls.size >= MAX_SUSPENDED || this.#countFor(owner) >= MAX_PER_CALLER) return null;
    const state = randomBytes(24).toString("base64url");
    const timer = this.#clock.after(EXPIRY_MS, () => {
      this.#calls.delete(state);
      call.questions.close();
    });
    this.#calls.set(state, { call, owner, request_digest: digestOf(request), timer });
    void call.result.catch(() => undefined).then(() => this.#restartExpiry(state));
    return state;
  }

  /** Throws for a state that is unknown, was used, or belongs to another caller or request. */
  resume(caller: Caller, request: McpClientRequest, state: unknown): UpstreamCall {
    const suspended = typeof state === "string" ? this.#calls.get(state) : undefined;
    if (suspended?.owner !== ownerOf(caller) || suspended.request_digest !== digestOf(request))
      throw new McpError(
        MCP_ERRORS.invalid_params,
        "params.requestState does not belong to a suspended request",
      );
    this.#calls.delete(state as string);
    suspended.timer.stop();
    return suspended.call;
  }

  close(): void {
    for (const { timer, call } of this.#calls.values()) {
      timer.stop();
      call.questions.close();
    }
    this.#calls.clear();
  }

  #countFor(owner: string): number {
    let count = 0;
    for (const suspended of this.#calls.values()) if (suspended.owner === owner) count++;
    return count;
  }

  /** Keeps the result of an ended call for a client that may still fetch it. */
  #restartExpiry(state: string): void {
    const suspended = this.#calls.get(state);
    if (suspended === undefined) return;
    suspended.timer.stop();
    suspended.timer = this.#clock.after(EXPIRY_MS, () => this.#calls.delete(state));
  }
}

function ownerOf({ actor, scope }: Caller): string {
  return `${actor}\n${scope.org_id}\n${scope.project_id}`;
}

/** Covers the request without the fields that differ each time it is sent. */
function digestOf({ method, params }: McpClientRequest): string {
  const { _meta: _m, inputResponses: _r, requestState: _s, ...rest } = params as JsonObject;
  return hash("sha256", canonicalJson({ method, rest }));
}
