/**
 * A new token for an old one, by one at a time however many calls wait, on every node: who renews holds the row until it is
 * done. A refresh token that was refused is not tried again. Behind calls that need no answer yet, an authorization server
 * that is away is left alone for a pause that grows; who waits for the answer asks regardless.
 */
import type { BoundPackage, KernelDeps } from "@backplane/ports";
import {
  EMPTY_SIGN_IN,
  readSignIn,
  type SignInSession,
  type StoredSignIn,
  type TokenRevocation,
  writeSignIn,
} from "@backplane/registry";
import { oauthFetch } from "./oauth-fetch.ts";
import { isFinal, requestTokens } from "./token-request.ts";

export interface Renewal {
  /** False: this token is the last one until somebody signs in. Rejects where the authorization server is away. */
  now(bound: BoundPackage, refused: string, scope: string | null): Promise<boolean>;
  /** The same, with nobody who waits for it. */
  behind(bound: BoundPackage, token: string): void;
}

interface Place {
  org_id: string;
  binding_id: string;
}

interface Rest {
  failures: number;
  /** Monotonic. */
  until: number;
}

/** Who renews has this long; then another may. */
const RENEW_MS = 30_000;
const PAUSE_MS = 200;
const RACES = 5;
const REST_MS = 2_000;
const LONGEST_REST_MS = 60_000;

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createRenewal(deps: Deps, revocation: Pick<TokenRevocation, "revoke">): Renewal {
  const { clock } = deps;
  /** One renewal at a time here; the row holds the other nodes. */
  const renewing = new Map<string, Promise<boolean>>();
  const resting = new Map<string, Rest>();

  function now(bound: BoundPackage, refused: string, scope: string | null): Promise<boolean> {
    const { binding_id } = bound.binding;
    const running = renewing.get(binding_id);
    if (running !== undefined) return running;
    const next = renew(bound, refused, scope).finally(() => renewing.delete(binding_id));
    renewing.set(binding_id, next);
    return next;
  }

  function behind(bound: BoundPackage, token: string): void {
    const { binding_id } = bound.binding;
    if (renewing.has(binding_id)) return;
    if ((resting.get(binding_id)?.until ?? 0) > clock.monotonic()) return;
    now(bound, token, null).then(
      () => resting.delete(binding_id),
      (error: unknown) => {
        rest(binding_id);
        deps.log.warn({ binding_id, err: error }, "a token could not be renewed; it holds for now");
      },
    );
  }

  function rest(binding_id: string): void {
    const at = clock.monotonic();
    const failures = (resting.get(binding_id)?.failures ?? 0) + 1;
    // What nobody asked about for so long is over by now.
    for (const [other, { until }] of resting) if (until + LONGEST_REST_MS < at) resting.delete(other);
    const pause = Math.min(REST_MS * 2 ** (failures - 1), LONGEST_REST_MS);
    resting.set(binding_id, { failures, until: at + pause });
  }

  async function renew(bound: BoundPackage, refused: string, scope: string | null): Promise<boolean> {
    const place = placeOf(bound);
    const until = clock.monotonic() + 2 * RENEW_MS;
    while (clock.monotonic() < until) {
      const found = await readSignIn(deps, place.org_id, place.binding_id);
      const session = found?.record.session ?? null;
      if (found === null || session === null) return false;
      if (session.access_token !== refused) return true;
      if (!isRenewable(session)) return false;
      if (found.row.renewing_until > clock.now()) {
        await pause();
        continue;
      }
      const renewing_until = clock.now() + RENEW_MS;
      if (!(await writeSignIn(deps, place, found, found.record, { renewing_until }))) continue;
      const held = { record: found.record, row: { ...found.row, revision: found.row.revision + 1 } };
      const asked = scope === null ? session : { ...session, scope };
      try {
        const fetch = oauthFetch(deps, bound.binding.scope);
        const tokens = await requestTokens(deps, fetch, asked, grantOf(asked));
        return await keepRenewed(bound, held, { ...asked, ...tokens });
      } catch (error) {
        const over = isFinal(error);
        const words = (error as Error).message;
        const record = over
          ? { ...found.record, needed: words, session: { ...session, refresh_token: null } }
          : found.record;
        await writeSignIn(deps, place, held, record);
        if (over) return false;
        throw error;
      }
    }
    return false;
  }

  /** A refresh token may have rotated: what came is kept, whatever else was written meanwhile of the same session. */
  async function keepRenewed(
    bound: BoundPackage,
    held: StoredSignIn,
    session: SignInSession,
  ): Promise<boolean> {
    const place = placeOf(bound);
    const before = held.record.session?.access_token;
    let found: StoredSignIn | null = held;
    for (let race = 0; race < RACES; race++) {
      const { challenge, needed } = race === 0 ? EMPTY_SIGN_IN : found.record;
      if (await writeSignIn(deps, place, found, { challenge, needed, session })) return true;
      found = await readSignIn(deps, place.org_id, place.binding_id);
      // Signed out, or in anew: that holds.
      if (found === null || found.record.session === null) {
        void revocation.revoke(bound.binding, session);
        return false;
      }
      if (found.record.session.access_token !== before) return true;
    }
    return false;
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => void clock.after(PAUSE_MS, resolve));
  }

  return { now, behind };
}

export function isRenewable({ grant, refresh_token }: SignInSession): boolean {
  return grant === "client_credentials" || refresh_token !== null;
}

export function placeOf({ binding }: BoundPackage): Place {
  return { org_id: binding.scope.org_id, binding_id: binding.binding_id };
}

function grantOf({ grant, refresh_token, scope }: SignInSession): Record<string, string> {
  if (grant === "authorization_code") return { grant_type: "refresh_token", refresh_token: refresh_token! };
  return { grant_type: grant, ...(scope === null ? {} : { scope }) };
}
