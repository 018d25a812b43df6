/**
 * The token of a binding's sign-in, for every call and question to its server. It is renewed ahead of its end or when the
 * server refuses it, by one at a time however many calls wait, on every node: who renews holds the row until it is done.
 * A refresh token that was refused is not tried again; then a person has to sign in.
 */
import { hash } from "node:crypto";
import { BackplaneError, type Grant } from "@backplane/contract";
import type { KernelDeps } from "../deps.ts";
import { secretsOf } from "../invoke/context.ts";
import type { BoundPackage, ServerChallenge } from "../ports/index.ts";
import { isFor } from "./discover.ts";
import { oauthFetch, short } from "./oauth-fetch.ts";
import { covers, isStepUp, union } from "./scope.ts";
import { NOTHING, readSignIn, type SignInSession, type StoredSignIn, writeSignIn } from "./sign-in-record.ts";
import { isFinal, requestTokens } from "./token-request.ts";

export interface SignInTokens {
  /** What the binding's slots hold, and the token of its sign-in where it has one. */
  secretsOf(bound: BoundPackage, grant: Pick<Grant, "secret_slots">): Promise<Record<string, string>>;
  /** After `sign_in.needed`: null, there is another token and it is worth trying again; else what to tell. */
  challenged(bound: BoundPackage, error: { details?: unknown }): Promise<BackplaneError | null>;
  /** The same for a whole question, with new secrets where there are some. */
  authorized<T>(
    bound: BoundPackage,
    grant: Pick<Grant, "secret_slots">,
    ask: (secrets: Record<string, string>) => Promise<T>,
  ): Promise<T>;
}

/** The slot that is the `Authorization` header of a server at an address. */
const SLOT = "authorization";
/** A token that ends within this is renewed before it is used. */
const AHEAD_MS = 30_000;
/** Who renews has this long; then another may. */
const RENEW_MS = 30_000;
const PAUSE_MS = 200;
const RACES = 5;
/** For a conversation with an older token, after a new one, and after one with more scope. */
export const MAX_RENEWALS = 3;

interface Place {
  org_id: string;
  binding_id: string;
}

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createTokens(deps: Deps): SignInTokens {
  const { clock } = deps;
  /** One renewal at a time here; the row holds the other nodes. */
  const renewing = new Map<string, Promise<boolean>>();

  async function token(bound: BoundPackage): Promise<string | undefined> {
    const { org_id, binding_id } = placeOf(bound);
    const session = sessionFor(bound, await readSignIn(deps, org_id, binding_id));
    if (session === null) return undefined;
    const left = session.expires_at === null ? Number.POSITIVE_INFINITY : session.expires_at - clock.now();
    if (left > AHEAD_MS || !isRenewable(session)) return session.access_token;
    try {
      await renew(bound, session.access_token, null);
    } catch (error) {
      // It may do once more; the server decides.
      deps.log.warn({ binding_id, err: error }, "a token could not be renewed");
    }
    return (await readSignIn(deps, org_id, binding_id))?.record.session?.access_token;
  }

  /** False: this token is the last one until somebody signs in. */
  function renew(bound: BoundPackage, refused: string, scope: string | null): Promise<boolean> {
    const { binding_id } = bound.binding;
    const running = renewing.get(binding_id);
    if (running !== undefined) return running;
    const next = renewNow(bound, refused, scope).finally(() => renewing.delete(binding_id));
    renewing.set(binding_id, next);
    return next;
  }

  async function renewNow(bound: BoundPackage, refused: string, scope: string | null): Promise<boolean> {
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
        const tokens = await requestTokens(
          deps,
          oauthFetch(deps, bound.binding.scope),
          asked,
          grantOf(asked),
        );
        return await keepRenewed(place, held, { ...asked, ...tokens });
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
  async function keepRenewed(place: Place, held: StoredSignIn, session: SignInSession): Promise<boolean> {
    const before = held.record.session?.access_token;
    let found: StoredSignIn | null = held;
    for (let race = 0; race < RACES; race++) {
      const { challenge, needed } = race === 0 ? NOTHING : found.record;
      if (await writeSignIn(deps, place, found, { challenge, needed, session })) return true;
      found = await readSignIn(deps, place.org_id, place.binding_id);
      // Signed out, or in anew: that holds.
      if (found === null || found.record.session === null) return false;
      if (found.record.session.access_token !== before) return true;
    }
    return false;
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
    if (await renew(bound, session.access_token, null)) return null;
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
    if (machine && (await renew(bound, session.access_token, wanted))) return null;
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
      const record = { ...(found?.record ?? NOTHING), challenge: { ...challenge, shown: null }, needed: why };
      if (found !== null && JSON.stringify(found.record) === JSON.stringify(record)) break;
      const renewing_until = found?.row.renewing_until ?? 0;
      if (await writeSignIn(deps, place, found, record, { renewing_until })) break;
    }
    return signInNeeded(bound, why, challenge);
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => void clock.after(PAUSE_MS, resolve));
  }

  const tokens: SignInTokens = {
    async secretsOf(bound, grant) {
      const secrets = grant.secret_slots.length === 0 ? {} : await secretsOf(deps, bound.binding, grant);
      if (!isRemote(bound) || hasOwnCredential(bound)) return secrets;
      const found = await token(bound);
      return found === undefined ? secrets : { ...secrets, [SLOT]: found };
    },
    challenged,
    async authorized(bound, grant, ask) {
      for (let round = 0; ; round++) {
        const secrets = await tokens.secretsOf(bound, grant);
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

export function isRemote({ package: { manifest } }: BoundPackage): boolean {
  return manifest.runtime.protocol === "mcp.http";
}

/** The operator's own secret or header; then there is no sign-in beside it. */
export function hasOwnCredential({ binding: { secrets, config } }: BoundPackage): boolean {
  if (secrets[SLOT] !== undefined) return true;
  const { headers } = config;
  const names = typeof headers === "object" && headers !== null ? Object.keys(headers) : [];
  return names.some((name) => name.toLowerCase() === SLOT);
}

export function serverUrl({ package: { package_id, manifest } }: BoundPackage): URL {
  const text = manifest.runtime.entrypoint[0] ?? "";
  if (!URL.canParse(text)) throw new BackplaneError("package.invalid", `${package_id} names no address`);
  return new URL(text);
}

/** A binding that moved to a package with another address takes no token along. */
function sessionFor(bound: BoundPackage, found: StoredSignIn | null): SignInSession | null {
  const session = found?.record.session ?? null;
  return session !== null && isFor(session.resource, serverUrl(bound)) ? session : null;
}

export function isRenewable({ grant, refresh_token }: SignInSession): boolean {
  return grant === "client_credentials" || refresh_token !== null;
}

export function loginCommand({ binding }: BoundPackage): string {
  return `backplane binding login ${binding.binding_id}`;
}

/** As a runner tells which credential it showed. */
function shownAs(token: string): string {
  return hash("sha256", `Bearer ${token}`, "hex");
}

function grantOf({ grant, refresh_token, scope }: SignInSession): Record<string, string> {
  if (grant === "authorization_code") return { grant_type: "refresh_token", refresh_token: refresh_token! };
  return { grant_type: grant, ...(scope === null ? {} : { scope }) };
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

function placeOf({ binding }: BoundPackage): Place {
  return { org_id: binding.scope.org_id, binding_id: binding.binding_id };
}
