/**
 * The token of a binding's sign-in, for every call and question to its server. One that still holds is used at once; near
 * its end it is renewed behind the calls. They wait for a renewal only when it is over or the server refuses it. Where it
 * cannot be renewed, a person has to sign in.
 */

import { hash } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import type { BoundPackage, KernelDeps, ServerChallenge } from "@backplane/ports";
import {
  AUTHORIZATION_SLOT,
  EMPTY_SIGN_IN,
  hasOwnCredential,
  isRemote,
  loginCommand,
  MAX_RENEWALS,
  readBindingSecrets,
  readSignIn,
  type SignInSession,
  type SignInTokens,
  type StoredSignIn,
  serverUrl,
  type TokenRevocation,
  writeSignIn,
} from "@backplane/registry";
import { isFor } from "./discovery.ts";
import { short } from "./oauth-fetch.ts";
import { createRenewal, isRenewable, placeOf } from "./renewal.ts";
import { covers, isStepUp, union } from "./scope.ts";

/** A token that ends within this is renewed behind the calls that still use it. */
const AHEAD_MS = 30_000;
const RACES = 5;

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createSignInTokens(deps: Deps, revocation: Pick<TokenRevocation, "revoke">): SignInTokens {
  const renewal = createRenewal(deps, revocation);

  async function token(bound: BoundPackage): Promise<string | undefined> {
    const { org_id, binding_id } = placeOf(bound);
    const session = sessionFor(bound, await readSignIn(deps, org_id, binding_id));
    if (session === null) return undefined;
    const { access_token, expires_at } = session;
    const left = expires_at === null ? Number.POSITIVE_INFINITY : expires_at - deps.clock.now();
    if (left > AHEAD_MS || !isRenewable(session)) return access_token;
    if (left > 0) {
      renewal.behind(bound, access_token);
      return access_token;
    }
    await renewal.now(bound, access_token, null);
    return (await readSignIn(deps, org_id, binding_id))?.record.session?.access_token;
  }

  async function challenged(
    bound: BoundPackage,
    error: { details?: unknown },
  ): Promise<BackplaneError | null> {
    const challenge = challengeOf(error.details);
    const { binding } = bound;
    if (hasOwnCredential(bound)) return badCredential(bound, challenge);
    const { org_id, binding_id } = placeOf(bound);
    const session = sessionFor(bound, await readSignIn(deps, org_id, binding_id));
    if (session === null) {
      return await needed(bound, challenge, `The MCP server of ${binding.package_id} asks for a sign-in`);
    }
    // An older token was shown, or none: by a conversation that began before, and is refused for that.
    if (challenge.shown !== shownAs(session.access_token)) return null;
    if (isStepUp(challenge)) return await stepUp(bound, challenge, session);
    if (await renewal.now(bound, session.access_token, null)) return null;
    const found = await readSignIn(deps, org_id, binding_id);
    const why = found?.record.needed ?? "its token is refused and cannot be renewed";
    return await needed(
      bound,
      challenge,
      `The sign-in of ${binding.package_id} does not hold any more: ${why}`,
    );
  }

  /** More scope: a machine asks for it by itself, a person has to be asked. Once: what was asked for and is refused stays refused. */
  async function stepUp(
    bound: BoundPackage,
    challenge: ServerChallenge,
    session: SignInSession,
  ): Promise<BackplaneError | null> {
    const { package_id } = bound.binding;
    const wanted = union(session.scope, challenge.scope);
    if (challenge.scope === null || covers(session.scope, challenge.scope)) {
      const words = challenge.scope === null ? "" : ` although ${short(challenge.scope)} was asked for`;
      return new BackplaneError("plugin_failed", `The MCP server of ${package_id} refuses this${words}.`, {
        details: { http_status: challenge.status },
      });
    }
    const machine = session.grant === "client_credentials";
    if (machine && (await renewal.now(bound, session.access_token, wanted))) return null;
    const more = short(challenge.scope);
    return await needed(bound, challenge, `The MCP server of ${package_id} asks for more scope (${more})`);
  }

  /** Kept, so that the next login asks for it, and everybody sees that one is needed. */
  async function needed(
    bound: BoundPackage,
    challenge: ServerChallenge,
    why: string,
  ): Promise<BackplaneError> {
    const place = placeOf(bound);
    for (let race = 0; race < RACES; race++) {
      const found = await readSignIn(deps, place.org_id, place.binding_id);
      const record = {
        ...(found?.record ?? EMPTY_SIGN_IN),
        challenge: { ...challenge, shown: null },
        needed: why,
      };
      if (found !== null && JSON.stringify(found.record) === JSON.stringify(record)) break;
      const renewing_until = found?.row.renewing_until ?? 0;
      if (await writeSignIn(deps, place, found, record, { renewing_until })) break;
    }
    return signInNeeded(bound, why, challenge);
  }

  const tokens: SignInTokens = {
    async readSecrets(bound, grant) {
      const secrets =
        grant.secret_slots.length === 0 ? {} : await readBindingSecrets(deps, bound.binding, grant);
      if (!isRemote(bound) || hasOwnCredential(bound)) return secrets;
      const found = await token(bound);
      return found === undefined ? secrets : { ...secrets, [AUTHORIZATION_SLOT]: found };
    },
    handleChallenge: challenged,
    async sendWithSecrets(bound, grant, ask) {
      for (let round = 0; ; round++) {
        const secrets = await tokens.readSecrets(bound, grant);
        try {
          return await ask(secrets);
        } catch (error) {
          if ((error as BackplaneError).code !== "sign_in.needed") throw error;
          const told = await challenged(bound, error as BackplaneError);
          if (told !== null) throw told;
          if (round === MAX_RENEWALS) throw error;
        }
      }
    },
  };
  return tokens;
}

/** A binding that moved to a package with another address takes no token along. */
function sessionFor(bound: BoundPackage, found: StoredSignIn | null): SignInSession | null {
  const session = found?.record.session ?? null;
  return session !== null && isFor(session.resource, serverUrl(bound)) ? session : null;
}

/** As a runner tells which credential it showed. */
function shownAs(token: string): string {
  return hash("sha256", `Bearer ${token}`, "hex");
}

function signInNeeded(bound: BoundPackage, why: string, challenge: ServerChallenge): BackplaneError {
  const fix = loginCommand(bound);
  return new BackplaneError("sign_in.needed", `${why}: ${fix}`, {
    details: { binding_id: bound.binding.binding_id, http_status: challenge.status },
    fix,
  });
}

function badCredential({ binding }: BoundPackage, { status }: ServerChallenge): BackplaneError {
  const message = `The MCP server of ${binding.package_id} refuses the credential that its binding holds (HTTP ${status}).`;
  return new BackplaneError("plugin_failed", message, {
    details: { http_status: status },
    fix: `Store a new value (backplane secret set NAME), or take it out and sign in: backplane binding login ${binding.binding_id}`,
  });
}

function challengeOf(details: unknown): ServerChallenge {
  const found = (details as { challenge?: Partial<ServerChallenge> } | undefined)?.challenge ?? {};
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  return {
    status: found.status === 403 ? 403 : 401,
    error: text(found.error),
    scope: text(found.scope),
    resource_metadata: text(found.resource_metadata),
    shown: text(found.shown),
  };
}
