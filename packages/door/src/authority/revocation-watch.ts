/**
 * Stops work whose authority was revoked. Every step checks its own authority before it starts; this watch covers work
 * that waits, streams or runs between two steps: pending approvals, queued calls, running calls and turns. The watch is
 * active only while there is such work. Many calls share one key, so each pass reads each key only once.
 */
import type { Clock, Logger, Timer } from "@backplane/ports";
import type { LiveCall } from "../calls/live-calls.ts";
import type { Revocation } from "../calls/revocation.ts";
import type { Authority, Principal } from "./authority.ts";

/** A revocation takes effect within a second; this interval, the reads of a pass and the stop must fit into it. */
const INTERVAL_MS = 250;

/** The part of a running agent turn that the watch needs. */
export interface RevocableTurn {
  caller: Omit<Principal, "scope">;
  key: { scope: Principal["scope"] };
  revoke(reason: Revocation): void;
}

interface RevocationWatchDeps {
  authority: Authority;
  clock: Clock;
  log: Logger;
  calls: () => readonly LiveCall[];
  turns: () => readonly RevocableTurn[];
  stopCall: (call: LiveCall, reason: Revocation) => void;
}

export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  #timer: Timer | null = null;
  #checking = false;
  #stopped = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
  }

  /** Starts the watch if it is not active. Called when there is work to watch. */
  wake(): void {
    if (this.#timer !== null || this.#checking || this.#stopped) return;
    this.#timer = this.#deps.clock.after(INTERVAL_MS, () => {
      this.#timer = null;
      void this.check();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.stop();
    this.#timer = null;
  }

  async check(): Promise<void> {
    if (this.#checking) return;
    this.#checking = true;
    try {
      await this.#checkAll();
    } catch (error) {
      // Meanwhile no step starts either, because each step reads the same store first.
      this.#deps.log.warn({ err: error }, "could not read the authority of running work; retrying");
    } finally {
      this.#checking = false;
    }
    if (this.#deps.calls().length + this.#deps.turns().length > 0) this.wake();
  }

  async #checkAll(): Promise<void> {
    const { authority, calls, turns, stopCall } = this.#deps;
    const revocations = new Map<string, Promise<Revocation | null>>();
    const readOnce = (key: string, read: () => Promise<Revocation | null>) => {
      let revocation = revocations.get(key);
      if (revocation === undefined) {
        revocation = read();
        revocations.set(key, revocation);
      }
      return revocation;
    };
    const findRevocation = (principal: Principal) => {
      const { org_id, project_id } = principal.scope;
      const key = `${org_id}\n${project_id}\n${principal.actor}\n${principal.role}`;
      return readOnce(key, () => authority.findRevocation(principal));
    };
    // Turns come first: a revoked turn stops its own calls, and their results precede its last message on the tape.
    for (const turn of turns()) {
      const reason = await findRevocation({ ...turn.caller, scope: turn.key.scope });
      if (reason !== null) turn.revoke(reason);
    }
    for (const call of calls()) {
      if (call.stopped !== null || call.stage === "settling") continue;
      const { org_id, project_id, requested_by: actor, role, binding_id } = call.row;
      const scope = { org_id, project_id };
      let reason = await findRevocation({ actor, scope, role });
      // Disabling a binding stops only calls that have not started.
      if (reason === null && call.stage !== "running") {
        reason = await readOnce(`${org_id}\n${project_id}\n${binding_id}`, () =>
          authority.findBindingRevocation(scope, binding_id, call.row),
        );
      }
      if (reason !== null && call.stopped === null) stopCall(call, reason);
    }
  }
}
