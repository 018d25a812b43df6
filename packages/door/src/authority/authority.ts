/**
 * Checks whether the caller of a call or a turn is still authorized. Each check asks the store, so that a revocation on
 * one gateway takes effect on all of them.
 */

import { type ApiKey, isId, type MaybePromise, mapMaybe, type Role } from "@backplane/contract";
import type { BoundPackage, Clock, InvocationRow, Scope, Store } from "@backplane/ports";
import type { Policies } from "@backplane/registry";
import type { LiveCalls } from "../calls/live-calls.ts";
import {
  assumeValidRoot,
  findPolicyRevocation,
  type Revocation,
  type RootCaller,
  revocationError,
} from "../calls/revocation.ts";
import type { DoorBindings } from "../tools/bound-tools.ts";

/** An actor with the scope and role that it acts in. */
export interface Principal {
  actor: string;
  scope: Scope;
  role: Role;
}

export interface AuthorityDeps {
  store: Pick<Store, "keys" | "invocations">;
  clock: Pick<Clock, "now">;
  bindings: Pick<DoorBindings, "get">;
  /** Finds the binding that succeeded the binding of the call. */
  findSuccessor: (row: InvocationRow) => Promise<BoundPackage | null>;
  policies: Policies;
  live: LiveCalls;
}

/** Far more than host.max_depth allows, so a longer chain of rows was not written by a gateway. */
const MAX_ANCESTORS = 1_000;

export class Authority {
  readonly #deps: AuthorityDeps;

  constructor(deps: AuthorityDeps) {
    this.#deps = deps;
  }

  /** Returns no promise if the store has the key in memory, as for nearly every call (benchmark http.invoke). */
  resolveRoot(principal: Principal): MaybePromise<RootCaller> {
    const { actor, scope } = principal;
    if (isId("key", actor)) {
      const key = this.#deps.store.keys.get(scope.org_id, actor);
      return mapMaybe(key, (stored_key) => ({
        actor,
        // The role of the key itself, because a turn that is resumed after a restart acts with fewer rights than its
        // key.
        role: stored_key?.role ?? principal.role,
        revoked: this.#findKeyRevocation(actor, stored_key),
      }));
    }
    return isId("invocation", actor) ? this.#followDelegation(principal) : assumeValidRoot(principal);
  }

  /** Why the principal is no longer authorized, or null. */
  async findRevocation(principal: Principal): Promise<Revocation | null> {
    const [root, policy] = await Promise.all([
      this.resolveRoot(principal),
      this.#deps.policies.getEffective(principal.scope),
    ]);
    return root.revoked ?? findPolicyRevocation(policy, root);
  }

  /** Throws the error of the revocation if the principal is no longer authorized. */
  async require(principal: Principal): Promise<void> {
    const revocation = await this.findRevocation(principal);
    if (revocation !== null) throw revocationError(revocation);
  }

  /** Why no call through this binding may start, or null. `row` is a call that was assigned to it before. */
  async findBindingRevocation(
    scope: Scope,
    binding_id: string,
    row?: InvocationRow,
  ): Promise<Revocation | null> {
    const stored = await this.#deps.bindings.get(scope, binding_id);
    const bound = stored === null && row !== undefined ? await this.#deps.findSuccessor(row) : stored;
    if (bound !== null && bound.binding.status !== "disabled") return null;
    return {
      code: "binding.not_active",
      message: `The binding ${binding_id} ${bound === null ? "was removed" : "is disabled"}.`,
      details: { binding_id },
      fix: bound === null ? "Bind the export again." : `backplane binding enable ${binding_id}`,
    };
  }

  /** Follows the chain of calls behind a delegated token. A revoked binding in the chain revokes all calls below it. */
  async #followDelegation(principal: Principal): Promise<RootCaller> {
    const { scope } = principal;
    let { actor, role } = principal;
    for (let n = 0; n < MAX_ANCESTORS && isId("invocation", actor); n++) {
      const row = await this.#readRow(scope, actor);
      if (row === null) break;
      const revoked = await this.findBindingRevocation(scope, row.binding_id, row);
      if (revoked !== null) return { actor, role, revoked };
      ({ requested_by: actor, role } = row);
    }
    if (isId("invocation", actor)) return { actor, role, revoked: createUnknownCallerRevocation(actor) };
    return await this.resolveRoot({ actor, role, scope });
  }

  async #readRow(scope: Scope, id: string): Promise<InvocationRow | null> {
    return this.#deps.live.get(id)?.row ?? (await this.#deps.store.invocations.get(scope, id));
  }

  #findKeyRevocation(key_id: string, key: ApiKey | null): Revocation | null {
    const fix = "Ask an operator for a new key: backplane key create.";
    const details = { key_id };
    if (key === null || key.revoked_at !== null) {
      const at = key === null ? "" : ` at ${key.revoked_at}`;
      return { code: "authority.key_revoked", message: `The key ${key_id} was revoked${at}.`, details, fix };
    }
    if (key.expires_at === null || Date.parse(key.expires_at) > this.#deps.clock.now()) return null;
    const message = `The key ${key_id} expired at ${key.expires_at}.`;
    return { code: "authority.key_expired", message, details, fix };
  }
}

function createUnknownCallerRevocation(invocation_id: string): Revocation {
  return {
    code: "auth.invalid",
    message: `The calling invocation ${invocation_id} does not exist.`,
    details: { invocation_id },
    fix: "Call again with your own credential.",
  };
}
