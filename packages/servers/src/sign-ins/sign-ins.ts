/**
 * Sign-ins at the remote servers of bindings. Admins start and end them; everybody who sees the binding sees their
 * status. A sign-in applies to everybody who may use the binding. Tokens are never returned.
 */

import {
  BackplaneError,
  type JsonObject,
  type SignIn,
  type SignInBegin,
  type SignInStarted,
} from "@backplane/contract";
import {
  type BoundPackage,
  buildAudit,
  type Caller,
  type KernelDeps,
  type Login,
  type NewAudit,
  type OpenedSignIn,
  requireOperator,
  requireWholeOrg,
  type SignInBrowser,
  type SignIns,
} from "@backplane/ports";
import {
  type DefinitionsService,
  EMPTY_SIGN_IN,
  hasOwnCredential,
  isRemote,
  loginCommand,
  randomToken,
  readStoredSignIn,
  type SignInRecord,
  serverUrl,
  type TokenRevocation,
  type TokenSource,
  type Tokens,
  tokenHash,
  writeSignIn,
} from "@backplane/registry";
import { isOpenedBy, prepareLogin, redeemCode, type StartedLogin, startLogin, unsealLogin } from "./login.ts";
import { buildClientMetadata, type GatewayUrls } from "./oauth-client.ts";
import { createOAuthFetch, excerpt } from "./oauth-fetch.ts";
import { isRenewable } from "./renewal.ts";
import { requestTokens } from "./token-request.ts";

const START_PATH = "/oauth/start";
const CALLBACK_PATH = "/oauth/callback";
const CLIENT_PATH = "/client-metadata.json";
const MAX_ATTEMPTS = 20;
const MESSAGE_CHARS = 1_000;

export function createSignIns(
  deps: KernelDeps,
  definitions: Pick<DefinitionsService, "describe">,
  revocation: TokenRevocation,
): SignIns {
  const { store, clock } = deps;

  /** Prefers the public address; only there can the client metadata document be read from outside. */
  function buildGatewayUrls(): GatewayUrls {
    const { public_url } = deps.gateway;
    const base = public_url ?? deps.gateway.base_url();
    const document = public_url?.startsWith("https:") ? `${public_url}${CLIENT_PATH}` : null;
    return { redirect_uri: `${base}${CALLBACK_PATH}`, document };
  }

  async function getRemoteBinding(caller: Caller, id: string): Promise<BoundPackage> {
    const bound = await store.bindings.get(caller.scope, id);
    if (bound === null) throw new BackplaneError("binding.not_found");
    if (isRemote(bound)) return bound;
    throw new BackplaneError(
      "request.invalid",
      `Binding ${id} has no remote server, and only remote servers have a sign-in.`,
      {
        fix: `Pass its credentials as secrets: backplane binding set ${id} --secret SLOT=NAME`,
      },
    );
  }

  async function requireManageable(caller: Caller, id: string, action: string): Promise<BoundPackage> {
    requireOperator(caller, action);
    if (!caller.admin) throw new BackplaneError("policy.denied", `Only an admin may ${action}.`);
    const bound = await getRemoteBinding(caller, id);
    if (bound.binding.scope.project_id === null) requireWholeOrg(caller, action);
    return bound;
  }

  async function begin(caller: Caller, id: string, options: SignInBegin): Promise<SignInStarted> {
    const bound = await requireManageable(caller, id, "sign in to a server");
    if (hasOwnCredential(bound)) throw credentialConflictError(bound);
    const { binding } = bound;
    const fetch = createOAuthFetch(deps, binding.scope);
    const previous = (await readStoredSignIn(deps, binding.scope.org_id, id))?.record ?? EMPTY_SIGN_IN;
    const urls = buildGatewayUrls();
    const { redirect_uri } = urls;
    const prepared = await prepareLogin(
      fetch,
      serverUrl(bound),
      previous.challenge,
      previous.session,
      options,
      urls,
    );
    const { source } = prepared;
    const details = { issuer: source.issuer, client_id: excerpt(source.client.id), scope: source.scope };
    if (source.grant === "client_credentials") {
      const request = { grant_type: source.grant, ...(source.scope === null ? {} : { scope: source.scope }) };
      const tokens = await requestTokens(deps, fetch, source, request);
      await storeSession(
        bound,
        caller.actor,
        source,
        tokens,
        buildAudit(deps, caller, "sign_in.done", id, details),
      );
      return {
        status: "signed_in",
        start_url: null,
        authorization_url: null,
        redirect_uri: null,
        expires_at: null,
      };
    }
    const started: StartedLogin = startLogin(deps, bound, caller.actor, prepared, redirect_uri);
    const audit = buildAudit(deps, caller, "sign_in.begin", id, details);
    if (!(await store.sign_ins.beginLogin(started.row, { audit })))
      throw new BackplaneError("binding.not_found");
    const expires_at = new Date(started.row.expires_at).toISOString();
    // The start URL has the same host as the redirect URI, because the browser sends its cookie only there.
    const start_url = new URL(`${START_PATH}?ticket=${started.ticket}`, redirect_uri).href;
    const { authorization_url } = started;
    return { status: "pending", start_url, authorization_url, redirect_uri, expires_at };
  }

  async function open(ticket: string, { browser_secrets }: SignInBrowser): Promise<OpenedSignIn> {
    const secret = randomToken(deps);
    const now = clock.now();
    const login = await store.sign_ins.openLogin(tokenHash(ticket), tokenHash(secret), now);
    if (login === null) throw new BackplaneError("sign_in.expired");
    const is_first_browser = isOpenedBy(login, [secret]);
    if (!is_first_browser && !isOpenedBy(login, browser_secrets)) throw otherBrowserError(login);
    const { authorization_url, redirect_uri } = unsealLogin(deps, login);
    return {
      authorization_url,
      secret: is_first_browser ? secret : null,
      secure: redirect_uri.startsWith("https:"),
      lasts_ms: login.expires_at - now,
    };
  }

  async function complete(by: Caller | SignInBrowser, redirect: string): Promise<SignIn> {
    const redirect_url = URL.canParse(redirect) ? new URL(redirect) : null;
    if (redirect_url === null)
      throw new BackplaneError("request.invalid", "redirect must be an absolute URL.");
    const state_hash = tokenHash(redirect_url.searchParams.get("state") ?? "");
    const pending = await store.sign_ins.getPendingLogin(state_hash, clock.now());
    // A login of another caller is reported as expired. A refused attempt leaves the login open for its owner.
    if (pending === null || ("actor" in by && by.actor !== pending.actor)) {
      throw new BackplaneError("sign_in.expired");
    }
    if ("browser_secrets" in by && !isOpenedBy(pending, by.browser_secrets)) throw otherBrowserError(pending);
    const login = await store.sign_ins.takeLogin(state_hash, clock.now());
    if (login === null) throw new BackplaneError("sign_in.expired");
    const scope = { org_id: login.org_id, project_id: null };
    try {
      const bound = await store.bindings.get(scope, login.binding_id);
      if (bound === null) throw new BackplaneError("binding.not_found");
      const { source, tokens } = await redeemCode(
        deps,
        createOAuthFetch(deps, bound.binding.scope),
        login,
        redirect_url,
      );
      // The user may have signed out or started a new login while the code was exchanged.
      const current = await store.sign_ins.getLoginState(login.org_id, login.binding_id);
      if (current?.status !== "taken") {
        await revocation.revoke(bound.binding, { ...source, ...tokens });
        throw new BackplaneError("sign_in.expired");
      }
      const { issuer, client, scope: requested_scope } = source;
      const details = { issuer, client_id: excerpt(client.id), scope: requested_scope };
      await storeSession(
        bound,
        login.actor,
        source,
        tokens,
        buildLoginAudit(bound, login, "sign_in.done", details),
      );
      await store.sign_ins.endLogin(state_hash, "done", null);
      return await view(bound);
    } catch (error) {
      const message = (error as Error).message.slice(0, MESSAGE_CHARS);
      await store.sign_ins.endLogin(state_hash, "failed", message);
      throw error;
    }
  }

  /** Logs the refusal and returns its error. */
  function otherBrowserError({ binding_id, actor }: Login): BackplaneError {
    deps.log.warn({ binding_id, actor }, "login was refused because another browser opened it");
    return new BackplaneError("sign_in.other_browser");
  }

  /** Stores the session, which every later call uses, and describes the server with the new token. */
  async function storeSession(
    bound: BoundPackage,
    actor: string,
    source: TokenSource,
    tokens: Tokens,
    audit: NewAudit,
  ): Promise<void> {
    const { binding } = bound;
    const key = { org_id: binding.scope.org_id, binding_id: binding.binding_id };
    const session = { ...source, ...tokens, signed_in_by: actor, signed_in_at: clock.now() };
    const record: SignInRecord = { challenge: null, needed: null, session };
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const stored = await readStoredSignIn(deps, key.org_id, key.binding_id);
      if (!(await writeSignIn(deps, key, stored, record, { records: { audit } }))) continue;
      deps.runner.retire(key.binding_id);
      void definitions.describe(bound);
      return;
    }
    throw new BackplaneError("binding.not_found");
  }

  async function end(caller: Caller, id: string): Promise<void> {
    const bound = await requireManageable(caller, id, "sign out of a server");
    const { scope } = bound.binding;
    const tokens = await revocation.readTokens(bound.binding);
    const audit = buildAudit(deps, caller, "sign_in.end", id);
    if (!(await store.sign_ins.remove(scope.org_id, id, { audit }))) return;
    deps.runner.retire(id);
    if (tokens === null) return;
    void revocation.revoke(bound.binding, tokens);
    void definitions.describe(bound);
  }

  async function view(bound: BoundPackage): Promise<SignIn> {
    const { binding_id, scope } = bound.binding;
    const { session, needed } =
      (await readStoredSignIn(deps, scope.org_id, binding_id))?.record ?? EMPTY_SIGN_IN;
    const login = await store.sign_ins.getLoginState(scope.org_id, binding_id);
    const iso = (at: number | null | undefined) =>
      typeof at === "number" ? new Date(at).toISOString() : null;
    return {
      binding_id,
      status: needed !== null ? "needed" : session === null ? "signed_out" : "signed_in",
      reason: needed,
      fix: needed === null ? null : loginCommand(bound),
      issuer: session?.issuer ?? null,
      resource: session?.resource ?? null,
      client_id: session?.client.id ?? null,
      grant: session?.grant ?? null,
      scope: session?.scope ?? null,
      expires_at: iso(session?.expires_at),
      renewable: session !== null && isRenewable(session),
      signed_in_by: session?.signed_in_by ?? null,
      signed_in_at: iso(session?.signed_in_at),
      login:
        login === null
          ? null
          : {
              status: login.status,
              message: login.message,
              begun_by: login.actor,
              expires_at: new Date(login.expires_at).toISOString(),
            },
    };
  }

  function buildLoginAudit(
    { binding }: BoundPackage,
    { actor }: Login,
    action: string,
    details: JsonObject,
  ): NewAudit {
    const { binding_id: subject, scope } = binding;
    return { id: deps.ids.next("audit"), at: clock.now(), scope, actor, action, subject, details };
  }

  return {
    get: async (caller, id) => await view(await getRemoteBinding(caller, id)),
    begin,
    open,
    complete,
    end,
    buildClientDocument() {
      const { document, redirect_uri } = buildGatewayUrls();
      if (document === null) return null;
      return { client_id: document, ...buildClientMetadata(redirect_uri, "none") };
    },
  };
}

function credentialConflictError({ binding: { binding_id } }: BoundPackage): BackplaneError {
  return new BackplaneError(
    "request.invalid",
    `Binding ${binding_id} has its own credential in the secret slot or header authorization.`,
    { fix: `Remove it from the binding first, see: backplane binding show ${binding_id}` },
  );
}
