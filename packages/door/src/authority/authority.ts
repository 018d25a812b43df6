/**
 * Whether whoever asked for a call or a turn may still go on. Read from the store whenever a step begins, so that a
 * revocation on one gateway holds on all of them: nothing here is kept between two questions.
 */

import { type ApiKey, isId, type MaybePromise, mapMaybe, type Role } from "@backplane/contract";
import type { Clock, InvocationRow, Scope, Store } from "@backplane/ports";
import type { Policies } from "@backplane/registry";
import type { LiveCalls } from "../calls/live.ts";
import {
  assumeStanding,
  type Revocation,
  revocationError,
  revokedByPolicy,
  type Standing,
} from "../calls/revocation.ts";
import type { DoorBindings } from "../tools/bound-tools.ts";

export interface Asker {
  actor: string;
  scope: Scope;
  role: Role;
}

export interface AuthorityDeps {
  store: Pick<Store, "keys" | "invocations">;
  clock: Pick<Clock, "now">;
  bindings: Pick<DoorBindings, "get">;
  policies: Policies;
  live: LiveCalls;
}

/** Calls start calls only so deep (host.max_depth); a chain of rows that is longer is not one of ours. */
const MOST_ANCESTORS = 1_000;

export class Authority {
  readonly #deps: AuthorityDeps;

  constructor(deps: AuthorityDeps) {
    this.#deps = deps;
  }

  /** Without a promise where the store has the key at hand, as for nearly every call. */
  standingOf(asker: Asker): MaybePromise<Standing> {
    const { actor, scope } = asker;
    if (isId("key", actor)) {
      const key = this.#deps.store.keys.get(scope.org_id, actor);
      return mapMaybe(key, (found) => ({
        root: actor,
        // The key's own: a conversation that goes on after a restart is given fewer rights than its key has.
        role: found?.role ?? asker.role,
        revoked: this.#lostKey(actor, found),
      }));
    }
    return isId("invocation", actor) ? this.#delegated(asker) : assumeStanding(asker);
  }

  /** Why the asker's work may not go on, or null. */
  async revocationOf(asker: Asker): Promise<Revocation | null> {
    const [standing, policy] = await Promise.all([
      this.standingOf(asker),
      this.#deps.policies.of(asker.scope),
    ]);
    return standing.revoked ?? revokedByPolicy(policy, standing);
  }

  /** Throws authority.* or binding.not_active. */
  async require(asker: Asker): Promise<void> {
    const revocation = await this.revocationOf(asker);
    if (revocation !== null) throw revocationError(revocation);
  }

  /** Whether calls of this binding may still begin. */
  async revokedBinding(scope: Scope, binding_id: string): Promise<Revocation | null> {
    const bound = await this.#deps.bindings.get(scope, binding_id);
    if (bound !== null && bound.binding.status !== "disabled") return null;
    return {
      code: "binding.not_active",
      message: `the binding ${binding_id} ${bound === null ? "was removed" : "is disabled"}`,
      details: { binding_id },
      fix: `backplane binding enable ${binding_id}`,
    };
  }

  async #delegated(asker: Asker): Promise<Standing> {
    const { scope } = asker;
    let { actor, role } = asker;
    for (let n = 0; n < MOST_ANCESTORS && isId("invocation", actor); n++) {
      const row = await this.#row(scope, actor);
      if (row === null) break;
      const revoked = await this.revokedBinding(scope, row.binding_id);
      if (revoked !== null) return { root: actor, role, revoked };
      ({ requested_by: actor, role } = row);
    }
    if (isId("invocation", actor)) return { root: actor, role, revoked: unknownCaller(actor) };
    return await this.standingOf({ actor, role, scope });
  }

  async #row(scope: Scope, id: string): Promise<InvocationRow | null> {
    return this.#deps.live.get(id)?.row ?? (await this.#deps.store.invocations.get(scope, id));
  }

  #lostKey(key_id: string, key: ApiKey | null): Revocation | null {
    const fix = "Ask an operator for a new key: backplane key create.";
    const details = { key_id };
    if (key === null || key.revoked_at !== null) {
      const at = key === null ? "" : ` at ${key.revoked_at}`;
      return { code: "authority.key_revoked", message: `the key ${key_id} was revoked${at}`, details, fix };
    }
    if (key.expires_at === null || Date.parse(key.expires_at) > this.#deps.clock.now()) return null;
    const message = `the key ${key_id} expired at ${key.expires_at}`;
    return { code: "authority.key_expired", message, details, fix };
  }
}

function unknownCaller(invocation_id: string): Revocation {
  return {
    code: "auth.invalid",
    message: `the calling invocation ${invocation_id} is not on record`,
    details: { invocation_id },
    fix: "Call again with a credential of your own.",
  };
}
