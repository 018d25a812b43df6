/**
 * Ends what is under way when its authority is gone. Every step asks for itself before it starts; what waits, streams or
 * runs between two steps is looked at here, as long as there is anything: questions, calls in line, running calls, turns.
 * Many calls have one key, so each is asked about once per look, however many they are.
 */
import type { Clock, Logger, Timer } from "@backplane/ports";
import type { LiveCall } from "../calls/live.ts";
import type { Revocation } from "../calls/revocation.ts";
import type { Asker, Authority } from "./authority.ts";

/** A revocation counts within a second: a look, what it reads and what it stops have to fit. */
const LOOK_MS = 250;

/** A running turn of an agent, as far as a revocation concerns it. */
export interface RevocableTurn {
  caller: Omit<Asker, "scope">;
  key: { scope: Asker["scope"] };
  revoke(why: Revocation): void;
}

export interface RevocationWatchDeps {
  authority: Authority;
  clock: Clock;
  log: Logger;
  calls: () => readonly LiveCall[];
  turns: () => readonly RevocableTurn[];
  stopCall: (call: LiveCall, why: Revocation) => void;
}

export class RevocationWatch {
  readonly #deps: RevocationWatchDeps;
  #timer: Timer | null = null;
  #looking = false;
  #stopped = false;

  constructor(deps: RevocationWatchDeps) {
    this.#deps = deps;
  }

  /** Something is under way. */
  wake(): void {
    if (this.#timer !== null || this.#looking || this.#stopped) return;
    this.#timer = this.#deps.clock.after(LOOK_MS, () => {
      this.#timer = null;
      void this.look();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.stop();
    this.#timer = null;
  }

  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      await this.#lookAtAll();
    } catch (error) {
      // Nothing starts meanwhile either: each step reads the same store first.
      this.#deps.log.warn({ err: error }, "the authority of running work could not be read; looking again");
    } finally {
      this.#looking = false;
    }
    if (this.#deps.calls().length + this.#deps.turns().length > 0) this.wake();
  }

  async #lookAtAll(): Promise<void> {
    const { authority, calls, turns, stopCall } = this.#deps;
    const known = new Map<string, Promise<Revocation | null>>();
    const once = (key: string, ask: () => Promise<Revocation | null>) => {
      let answer = known.get(key);
      if (answer === undefined) {
        answer = ask();
        known.set(key, answer);
      }
      return answer;
    };
    const ofAsker = (asker: Asker) => {
      const { org_id, project_id } = asker.scope;
      const key = `${org_id}\n${project_id}\n${asker.actor}\n${asker.role}`;
      return once(key, () => authority.revocationOf(asker));
    };
    // Turns first: their calls end for the turn's reason, and each result stands on the tape before its last message.
    for (const turn of turns()) {
      const why = await ofAsker({ ...turn.caller, scope: turn.key.scope });
      if (why !== null) turn.revoke(why);
    }
    for (const call of calls()) {
      if (call.stopped !== null || call.stage === "settling") continue;
      const { org_id, project_id, requested_by: actor, role, binding_id } = call.row;
      const scope = { org_id, project_id };
      let why = await ofAsker({ actor, scope, role });
      // One that runs on a binding that was disabled ends by itself; one that has not begun does not begin.
      if (why === null && call.stage !== "running") {
        why = await once(`${org_id}\n${project_id}\n${binding_id}`, () =>
          authority.revokedBinding(scope, binding_id),
        );
      }
      if (why !== null && call.stopped === null) stopCall(call, why);
    }
  }
}
