/**
 * The access token of a binding's sign-in, for every request to its server. A valid token is used immediately, and
 * one that expires soon is renewed in the background. A request waits for a renewal only when the token has expired
 * or the server refuses it. If it cannot be renewed, a person has to sign in.
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
  readStoredSignIn,
  type SignInSession,
  type SignInTokens,
  type StoredSignIn,
  serverUrl,
  type TokenRevocation,
  writeSignIn,
} from "@backplane/registry";
import { coversServer } from "./discovery.ts";
import { excerpt } from "./oauth-fetch.ts";
import { bindingKeyOf, createRenewal, isRenewable } from "./renewal.ts";
import { includesScopes, isStepUp, unionScopes } from "./scope.ts";

/** A token that expires within this time is renewed in the background. */
const RENEW_AHEAD_MS = 30_000;
const MAX_ATTEMPTS = 5;

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createSignInTokens(deps: Deps, revocation: Pick<TokenRevocation, "revoke">): SignInTokens {
  const renewal = createRenewal(deps, revocation);

  async function readToken(bound: BoundPackage): Promise<string | undefined> {
    const { org_id, binding_id } = bindingKeyOf(bound);
    const session = findSession(bound, await readStoredSignIn(deps, org_id, binding_id));
    if (session === null) return undefined;
    const { access_token, expires_at } = session;
    const remaining_ms = expires_at === null ? Number.POSITIVE_INFINITY : expires_at - deps.clock.now();
    if (remaining_ms > RENEW_AHEAD_MS || !isRenewable(session)) return access_token;
    if (remaining_ms > 0) {
      renewal.renewInBackground(bound, access_token);
      return access_token;
    }
    await renewal.renew(bound, access_token, null);
    return (await readStoredSignIn(deps, org_id, binding_id))?.record.session?.access_token;
  }

  async function handleChallenge(
    bound: BoundPackage,
    error: { details?: unknown },
  ): Promise<BackplaneError | null> {
    const challenge = parseChallenge(error.details);
    const { binding } = bound;
    if (hasOwnCredential(bound)) return credentialRefusedError(bound, challenge);
    const { org_id, binding_id } = bindingKeyOf(bound);
    const session = findSession(bound, await readStoredSignIn(deps, org_id, binding_id));
    if (session === null) {
      return await recordSignInNeeded(
        bound,
        challenge,
        `The MCP server of ${binding.package_id} requires a sign-in`,
      );
    }
    // The connection used an older token or none, so a retry with the current one may succeed.
    if (challenge.shown !== digestCredential(session.access_token)) return null;
    if (isStepUp(challenge)) return await handleStepUp(bound, challenge, session);
    if (await renewal.renew(bound, session.access_token, null)) return null;
    const stored = await readStoredSignIn(deps, org_id, binding_id);
    const reason = stored?.record.needed ?? "its token was refused and cannot be renewed";
    return await recordSignInNeeded(
      bound,
      challenge,
      `The sign-in of ${binding.package_id} is no longer valid: ${reason}`,
    );
  }

  /**
   * A client_credentials session can request a wider scope without a person; otherwise a person has to sign in. A scope
   * that was requested and refused is not requested again.
   */
  async function handleStepUp(
    bound: BoundPackage,
    challenge: ServerChallenge,
    session: SignInSession,
  ): Promise<BackplaneError | null> {
    const { package_id } = bound.binding;
    const wider_scope = unionScopes(session.scope, challenge.scope);
    if (challenge.scope === null || includesScopes(session.scope, challenge.scope)) {
      const suffix =
        challenge.scope === null ? "" : ` although the scope ${excerpt(challenge.scope)} was requested`;
      return new BackplaneError(
        "plugin_failed",
        `The MCP server of ${package_id} refuses the request${suffix}.`,
        {
          details: { http_status: challenge.status },
        },
      );
    }
    const needs_no_person = session.grant === "client_credentials";
    if (needs_no_person && (await renewal.renew(bound, session.access_token, wider_scope))) return null;
    const scope = excerpt(challenge.scope);
    return await recordSignInNeeded(
      bound,
      challenge,
      `The MCP server of ${package_id} requires a wider scope (${scope})`,
    );
  }

  /**
   * Stores the challenge, so that the next login requests its scope and the status shows that a sign-in is needed.
   */
  async function recordSignInNeeded(
    bound: BoundPackage,
    challenge: ServerChallenge,
    reason: string,
  ): Promise<BackplaneError> {
    const key = bindingKeyOf(bound);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const stored = await readStoredSignIn(deps, key.org_id, key.binding_id);
      const record = {
        ...(stored?.record ?? EMPTY_SIGN_IN),
        challenge: { ...challenge, shown: null },
        needed: reason,
      };
      if (stored !== null && JSON.stringify(stored.record) === JSON.stringify(record)) break;
      const renewing_until = stored?.row.renewing_until ?? 0;
      if (await writeSignIn(deps, key, stored, record, { renewing_until })) break;
    }
    return signInNeededError(bound, reason, challenge);
  }

  const tokens: SignInTokens = {
    async readSecrets(bound, grant) {
      const secrets =
        grant.secret_slots.length === 0 ? {} : await readBindingSecrets(deps, bound.binding, grant);
      if (!isRemote(bound) || hasOwnCredential(bound)) return secrets;
      const token = await readToken(bound);
      return token === undefined ? secrets : { ...secrets, [AUTHORIZATION_SLOT]: token };
    },
    handleChallenge,
    async sendWithSecrets(bound, grant, send) {
      for (let attempt = 0; ; attempt++) {
        const secrets = await tokens.readSecrets(bound, grant);
        try {
          return await send(secrets);
        } catch (error) {
          if ((error as BackplaneError).code !== "sign_in.needed") throw error;
          const failure = await handleChallenge(bound, error as BackplaneError);
          if (failure !== null) throw failure;
          if (attempt === MAX_RENEWALS) throw error;
        }
      }
    },
  };
  return tokens;
}

/** A token is not used after the binding was changed to a package version with another address. */
function findSession(bound: BoundPackage, stored: StoredSignIn | null): SignInSession | null {
  const session = stored?.record.session ?? null;
  return session !== null && coversServer(session.resource, serverUrl(bound)) ? session : null;
}

/** Matches the digest with which the runner reports the credential that it sent. */
function digestCredential(token: string): string {
  return hash("sha256", `Bearer ${token}`, "hex");
}

function signInNeededError(bound: BoundPackage, reason: string, challenge: ServerChallenge): BackplaneError {
  const fix = loginCommand(bound);
  return new BackplaneError("sign_in.needed", `${reason}: ${fix}`, {
    details: { binding_id: bound.binding.binding_id, http_status: challenge.status },
    fix,
  });
}

function credentialRefusedError({ binding }: BoundPackage, { status }: ServerChallenge): BackplaneError {
  const message = `The MCP server of ${binding.package_id} rejected the credential of its binding (HTTP ${status}).`;
  return new BackplaneError("plugin_failed", message, {
    details: { http_status: status },
    fix: `Store a new value (backplane secret set NAME), or remove it and sign in: backplane binding login ${binding.binding_id}`,
  });
}

function parseChallenge(details: unknown): ServerChallenge {
  const challenge = (details as { challenge?: Partial<ServerChallenge> } | undefined)?.challenge ?? {};
  const text = (value: unknown) => (typeof value === "string" ? value : null);
  return {
    status: challenge.status === 403 ? 403 : 401,
    error: text(challenge.error),
    scope: text(challenge.scope),
    resource_metadata: text(challenge.resource_metadata),
    shown: text(challenge.shown),
  };
}
