/** API keys: shown once, stored hashed. A key can only make keys that are no wider than itself. */
import { type ApiKey, BackplaneError, type KeyCreate } from "@backplane/contract";
import { atLeast, auditOf, requireOperator } from "../caller.ts";
import type { KernelDeps } from "../deps.ts";
import type { Kernel } from "../facade.ts";
import { randomToken, tokenHash } from "../invoke/delegation.ts";
import type { LiveCalls } from "../invoke/live.ts";
import type { Caller, Page } from "../ports/index.ts";
import { authenticate } from "./authenticate.ts";

const KEY_PREFIX = "bpk_";

export function createKeys(deps: KernelDeps, live: LiveCalls): Kernel["keys"] {
  const { store } = deps;

  async function create(caller: Caller, body: KeyCreate) {
    requireOperator(caller, "create keys");
    const scope = targetScope(caller, body);
    refuseEscalation(caller, body, "create");
    const token = KEY_PREFIX + randomToken(deps);
    const key: ApiKey = {
      id: deps.ids.next("key"),
      name: body.name,
      ...scope,
      role: body.role,
      scopes: [...new Set(body.scopes)],
      prefix: token.slice(0, KEY_PREFIX.length + 4),
      created_at: new Date(deps.clock.now()).toISOString(),
      expires_at: body.expires_at ?? caller.expires_at ?? null,
      revoked_at: null,
    };
    const about = { name: key.name, role: key.role, scopes: key.scopes };
    const audit = auditOf(deps, caller, "key.create", key.id, about, scope);
    await store.keys.create(key, tokenHash(token), { audit });
    return { key, token };
  }

  async function revoke(caller: Caller, id: string): Promise<void> {
    requireOperator(caller, "revoke keys");
    if (!caller.admin && id !== caller.actor) {
      const key = await find(caller, id);
      if (key === null) throw new BackplaneError("key.not_found");
      refuseEscalation(caller, key, "revoke");
    }
    const at = new Date(deps.clock.now()).toISOString();
    const audit = auditOf(deps, caller, "key.revoke", id);
    if (!(await store.keys.revoke(caller.scope, id, at, { audit }))) {
      throw new BackplaneError("key.not_found");
    }
  }

  /** By reading the list: revoking is rare, and a scope has few keys. */
  async function find(caller: Caller, id: string): Promise<ApiKey | null> {
    let page: Page = { limit: 500 };
    for (;;) {
      const { items, next } = await store.keys.list(caller.scope, page);
      const found = items.find((key) => key.id === id);
      if (found !== undefined || next === null) return found ?? null;
      page = { limit: 500, after: next };
    }
  }

  return {
    create,
    list: (caller, page) => store.keys.list(caller.scope, page),
    revoke,
    authenticate: (token) => authenticate(deps, live, token),
  };
}

/** The admin credential may name any org; everybody else stays where it is. */
function targetScope(caller: Caller, body: KeyCreate) {
  const own = caller.scope;
  const scope = {
    org_id: body.org_id ?? own.org_id,
    project_id: body.project_id === undefined ? own.project_id : body.project_id,
  };
  if (caller.actor === "admin") return scope;
  const inside =
    scope.org_id === own.org_id && (own.project_id === null || scope.project_id === own.project_id);
  if (!inside) {
    throw new BackplaneError("policy.denied", "a key can only create keys of its own org and project");
  }
  return scope;
}

/** Neither making nor ending a key reaches beyond what the caller itself may do. */
function refuseEscalation(
  caller: Caller,
  key: Pick<ApiKey, "scopes" | "role"> & { expires_at?: string | null | undefined },
  what: "create" | "revoke",
): void {
  if (what === "create" && outlives(caller, key)) {
    const message = `a key that ends at ${caller.expires_at} cannot create one that ends later`;
    throw new BackplaneError("policy.denied", message);
  }
  if (caller.admin) return;
  const wider = key.scopes.filter((scope) => !caller.scopes.includes(scope));
  if (wider.length > 0) {
    const message = `a key cannot ${what} one with ${wider.join(", ")}, which it lacks`;
    throw new BackplaneError("policy.denied", message);
  }
  if (!atLeast(caller.role, key.role)) {
    const message = `a ${caller.role} cannot ${what} a key with the role ${key.role}`;
    throw new BackplaneError("policy.denied", message);
  }
}

function outlives(caller: Caller, key: { expires_at?: string | null | undefined }): boolean {
  if (caller.expires_at === undefined || key.expires_at === undefined || key.expires_at === null)
    return false;
  return Date.parse(key.expires_at) > Date.parse(caller.expires_at);
}
