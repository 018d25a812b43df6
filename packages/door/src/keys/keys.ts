/** API keys: shown once, stored as hashes. A key can create only keys with no more rights than it has itself. */

import {
  type ApiKey,
  BackplaneError,
  type JsonObject,
  type KeyCreate,
  TOKEN_PREFIXES,
} from "@backplane/contract";
import {
  buildAudit,
  type Caller,
  HOST_ADMIN,
  hasRole,
  type Kernel,
  type KernelDeps,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import { type Policies, randomToken, tokenHash } from "@backplane/registry";
import type { Authority } from "../authority/authority.ts";
import type { LiveCalls } from "../calls/live-calls.ts";
import { profileNameOf } from "../catalog/defer-tools.ts";
import { authenticate } from "./authenticate.ts";

interface KeyFilter {
  project?: string;
}

export function createKeys(
  deps: KernelDeps,
  live: LiveCalls,
  authority: Authority,
  policies: Pick<Policies, "getEffective">,
): Kernel["keys"] {
  const { store } = deps;

  async function create(caller: Caller, body: KeyCreate) {
    requireOperator(caller, "create keys");
    const scope = resolveTargetScope(caller, body);
    refuseEscalation(caller, body, "create");
    await requireProfiles(scope, body.tools ?? []);
    const llm = await resolveLlmLimits(caller, body.llm);
    const token = TOKEN_PREFIXES.key + randomToken(deps);
    const key: ApiKey = {
      id: deps.ids.next("key"),
      name: body.name,
      ...scope,
      role: body.role,
      scopes: [...new Set(body.scopes)],
      prefix: token.slice(0, TOKEN_PREFIXES.key.length + 4),
      created_at: new Date(deps.clock.now()).toISOString(),
      expires_at: body.expires_at ?? caller.expires_at ?? null,
      revoked_at: null,
      ...(body.tools === undefined ? {} : { tools: [...new Set(body.tools)] }),
      ...(llm === undefined ? {} : { llm }),
    };
    const details: JsonObject = { name: key.name, role: key.role, scopes: key.scopes };
    if (key.tools !== undefined) details.tools = key.tools;
    if (llm !== undefined) details.llm = llm as JsonObject;
    const audit = buildAudit(deps, caller, "key.create", key.id, details, scope);
    await store.keys.create(key, tokenHash(token), { audit });
    return { key, token };
  }

  /** A key with a misspelled profile would list no tools, and nothing would report the mistake. */
  async function requireProfiles(scope: Scope, tools: readonly string[]): Promise<void> {
    const names = tools.flatMap((pattern) => profileNameOf(pattern) ?? []);
    if (names.length === 0) return;
    const { tool_profiles } = (await policies.getEffective(scope)).document;
    const unknown = names.find((name) => !Object.hasOwn(tool_profiles, name));
    if (unknown === undefined) return;
    throw new BackplaneError("request.invalid", `The policy has no tool profile ${unknown}.`, {
      fix: `Create it with \`backplane policy set tool_profiles.${unknown} '["TOOL"]'\`.`,
    });
  }

  /**
   * A key with limits at the model endpoints must not create keys, because the new key could be without limits. Admin
   * keys are exempt.
   */
  async function resolveLlmLimits(caller: Caller, requested: KeyCreate["llm"]): Promise<KeyCreate["llm"]> {
    const own_limits = (await store.keys.get(caller.scope.org_id, caller.actor))?.llm;
    if (own_limits === undefined || caller.admin) return requested;
    throw new BackplaneError("policy.denied", "A key with limits at the model endpoints cannot create keys.");
  }

  async function revoke(caller: Caller, id: string, { project }: KeyFilter = {}): Promise<void> {
    requireOperator(caller, "revoke keys");
    if (!caller.admin && id !== caller.actor) {
      const key = await store.keys.get(caller.scope.org_id, id);
      if (key === null || !covers(caller.scope, key)) throw new BackplaneError("key.not_found");
      refuseEscalation(caller, key, "revoke");
    }
    const at = new Date(deps.clock.now()).toISOString();
    const where = selectScope(caller, project);
    const key = await store.keys.get(where.org_id, id);
    const audit = buildAudit(deps, caller, "key.revoke", id, {}, key === null ? where : scopeOf(key));
    if (!(await store.keys.revoke(where, id, at, { audit }))) {
      throw new BackplaneError("key.not_found");
    }
  }

  return {
    create,
    list: async (caller, page, { project } = {}) => await store.keys.list(selectScope(caller, project), page),
    revoke,
    authenticate: (token, proof) => authenticate(deps, live, authority, token, proof),
  };
}

/** The widest scope whose keys the caller may manage. The host's admin manages every project of the org it acts in. */
function widestScopeOf({ actor, scope }: Caller): Scope {
  return actor === HOST_ADMIN ? { ...scope, project_id: null } : scope;
}

function covers(scope: Scope, { project_id }: ApiKey): boolean {
  return scope.project_id === null || scope.project_id === project_id;
}

/** `*` selects everything that the caller may manage; without a project, the caller's own scope is used. */
function selectScope(caller: Caller, project: string | undefined): Scope {
  if (project === undefined) return caller.scope;
  const widest = widestScopeOf(caller);
  if (project === "*" || project === widest.project_id) return widest;
  if (widest.project_id === null) return { ...widest, project_id: project };
  throw new BackplaneError(
    "policy.denied",
    `A key of the project ${widest.project_id} cannot manage keys of ${project}.`,
    { fix: "Use the admin token, or a key of the whole organization." },
  );
}

function scopeOf({ org_id, project_id }: ApiKey): Scope {
  return { org_id, project_id };
}

/** The admin token may create keys of any org; every other caller only keys of its own org and project. */
function resolveTargetScope(caller: Caller, body: KeyCreate) {
  const own_scope = caller.scope;
  const scope = {
    org_id: body.org_id ?? own_scope.org_id,
    project_id: body.project_id === undefined ? own_scope.project_id : body.project_id,
  };
  if (caller.actor === HOST_ADMIN) return scope;
  const is_inside =
    scope.org_id === own_scope.org_id &&
    (own_scope.project_id === null || scope.project_id === own_scope.project_id);
  if (!is_inside) {
    throw new BackplaneError(
      "policy.denied",
      "A key can create only keys of its own organization and project.",
    );
  }
  return scope;
}

/** A caller may neither create nor revoke a key that has more rights than the caller. */
function refuseEscalation(
  caller: Caller,
  key: Pick<ApiKey, "scopes" | "role"> & { expires_at?: string | null | undefined },
  action: "create" | "revoke",
): void {
  if (action === "create" && outlives(caller, key)) {
    const message = `A key that expires at ${caller.expires_at} cannot create a key that expires later.`;
    throw new BackplaneError("policy.denied", message);
  }
  if (caller.admin) return;
  const wider = key.scopes.filter((scope) => !caller.scopes.includes(scope));
  if (wider.length > 0) {
    const message = `A key cannot ${action} a key with scopes that it lacks: ${wider.join(", ")}.`;
    throw new BackplaneError("policy.denied", message);
  }
  if (!hasRole(caller.role, key.role)) {
    const message = `A caller with the role ${caller.role} cannot ${action} a key with the role ${key.role}.`;
    throw new BackplaneError("policy.denied", message);
  }
}

function outlives(caller: Caller, key: { expires_at?: string | null | undefined }): boolean {
  if (caller.expires_at === undefined || key.expires_at === undefined || key.expires_at === null)
    return false;
  return Date.parse(key.expires_at) > Date.parse(caller.expires_at);
}
