/**
 * Renews tokens, one renewal at a time per sign-in across all calls and nodes: the node that renews holds the row
 * until the renewal ends. A refused refresh token is not used again. A renewal in the background backs off while the
 * authorization server is unavailable; a renewal that a call waits for does not.
 */
import type { BoundPackage, KernelDeps } from "@backplane/ports";
import {
  EMPTY_SIGN_IN,
  readStoredSignIn,
  type SignInSession,
  type StoredSignIn,
  type TokenRevocation,
  writeSignIn,
} from "@backplane/registry";
import { createOAuthFetch } from "./oauth-fetch.ts";
import { isPermanentRefusal, requestTokens } from "./token-request.ts";

export interface Renewal {
  /**
   * Replaces `old_token`, unless it was replaced already. Resolves to false when the token cannot be renewed until a
   * person signs in, or not in time. Rejects when the authorization server is unavailable.
   */
  renew(bound: BoundPackage, old_token: string, scope: string | null): Promise<boolean>;
  /** Renews while callers continue to use the current token. */
  renewInBackground(bound: BoundPackage, token: string): void;
}

interface BindingKey {
  org_id: string;
  binding_id: string;
}

interface Backoff {
  failures: number;
  /** Monotonic time. */
  until: number;
}

/** A node may hold the row for this long; then another node may renew. */
const RENEWAL_LEASE_MS = 30_000;
const POLL_MS = 200;
const MAX_ATTEMPTS = 5;
const BACKOFF_MS = 2_000;
const MAX_BACKOFF_MS = 60_000;

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createRenewal(deps: Deps, revocation: Pick<TokenRevocation, "revoke">): Renewal {
  const { clock } = deps;
  /** Renewals of this node; the row in the store excludes other nodes. */
  const renewing = new Map<string, Promise<boolean>>();
  const backoffs = new Map<string, Backoff>();

  function renew(bound: BoundPackage, old_token: string, scope: string | null): Promise<boolean> {
    const { binding_id } = bound.binding;
    const running = renewing.get(binding_id);
    if (running !== undefined) return running;
    const next = renewStored(bound, old_token, scope).finally(() => renewing.delete(binding_id));
    renewing.set(binding_id, next);
    return next;
  }

  function renewInBackground(bound: BoundPackage, token: string): void {
    const { binding_id } = bound.binding;
    if (renewing.has(binding_id)) return;
    if ((backoffs.get(binding_id)?.until ?? 0) > clock.monotonic()) return;
    renew(bound, token, null).then(
      () => backoffs.delete(binding_id),
      (error: unknown) => {
        backOff(binding_id);
        deps.log.warn(
          { binding_id, err: error },
          "token could not be renewed in the background; it is still valid",
        );
      },
    );
  }

  function backOff(binding_id: string): void {
    const failed_at = clock.monotonic();
    const failures = (backoffs.get(binding_id)?.failures ?? 0) + 1;
    // Entries that expired long ago are removed.
    for (const [id, { until }] of backoffs) if (until + MAX_BACKOFF_MS < failed_at) backoffs.delete(id);
    const pause = Math.min(BACKOFF_MS * 2 ** (failures - 1), MAX_BACKOFF_MS);
    backoffs.set(binding_id, { failures, until: failed_at + pause });
  }

  async function renewStored(bound: BoundPackage, old_token: string, scope: string | null): Promise<boolean> {
    const key = bindingKeyOf(bound);
    const until = clock.monotonic() + 2 * RENEWAL_LEASE_MS;
    while (clock.monotonic() < until) {
      const stored = await readStoredSignIn(deps, key.org_id, key.binding_id);
      const session = stored?.record.session ?? null;
      if (stored === null || session === null) return false;
      if (session.access_token !== old_token) return true;
      if (!isRenewable(session)) return false;
      if (stored.row.renewing_until > clock.now()) {
        await waitForPoll();
        continue;
      }
      const renewing_until = clock.now() + RENEWAL_LEASE_MS;
      if (!(await writeSignIn(deps, key, stored, stored.record, { renewing_until }))) continue;
      const locked = { record: stored.record, row: { ...stored.row, revision: stored.row.revision + 1 } };
      const requested = scope === null ? session : { ...session, scope };
      try {
        const fetch = createOAuthFetch(deps, bound.binding.scope);
        const tokens = await requestTokens(deps, fetch, requested, grantParametersOf(requested));
        return await storeRenewed(bound, locked, { ...requested, ...tokens });
      } catch (error) {
        const is_permanent = isPermanentRefusal(error);
        const { message } = error as Error;
        const record = is_permanent
          ? { ...stored.record, needed: message, session: { ...session, refresh_token: null } }
          : stored.record;
        await writeSignIn(deps, key, locked, record);
        if (is_permanent) return false;
        throw error;
      }
    }
    return false;
  }

  /**
   * The refresh token may have been rotated, so the new tokens are stored even if the row of the same session
   * changed meanwhile.
   */
  async function storeRenewed(
    bound: BoundPackage,
    locked: StoredSignIn,
    session: SignInSession,
  ): Promise<boolean> {
    const key = bindingKeyOf(bound);
    const previous_token = locked.record.session?.access_token;
    let current: StoredSignIn | null = locked;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { challenge, needed } = attempt === 0 ? EMPTY_SIGN_IN : current.record;
      if (await writeSignIn(deps, key, current, { challenge, needed, session })) return true;
      current = await readStoredSignIn(deps, key.org_id, key.binding_id);
      // A sign-out or a new sign-in takes precedence.
      if (current === null || current.record.session === null) {
        void revocation.revoke(bound.binding, session);
        return false;
      }
      if (current.record.session.access_token !== previous_token) return true;
    }
    return false;
  }

  function waitForPoll(): Promise<void> {
    return new Promise((resolve) => void clock.after(POLL_MS, resolve));
  }

  return { renew, renewInBackground };
}

export function isRenewable({ grant, refresh_token }: SignInSession): boolean {
  return grant === "client_credentials" || refresh_token !== null;
}

export function bindingKeyOf({ binding }: BoundPackage): BindingKey {
  return { org_id: binding.scope.org_id, binding_id: binding.binding_id };
}

function grantParametersOf({ grant, refresh_token, scope }: SignInSession): Record<string, string> {
  if (grant === "authorization_code") return { grant_type: "refresh_token", refresh_token: refresh_token! };
  return { grant_type: grant, ...(scope === null ? {} : { scope }) };
}
