/**
 * Keys that an org trusts to sign packages. Only an admin of the whole org may change them, and each change is audited.
 * Trusting a key again corrects or renews it. A revoked key stays revoked, because whoever has stolen it can backdate
 * signatures.
 */

import {
  BackplaneError,
  canonicalJson,
  codeOf,
  type JsonObject,
  type TrustedKey,
  type TrustedKeyCreate,
} from "@backplane/contract";
import { buildAudit, type Caller, type Kernel, type KernelDeps, requireWholeOrg } from "@backplane/ports";
import { readPublicKey, signingKeyId } from "./verify-signature.ts";

/** The part of a key that the operator decides. */
type Trust = Pick<TrustedKey, "name" | "packages" | "not_before" | "not_after">;

const NEW_KEY = { packages: ["*"], not_before: null, not_after: null };

export function createTrustedKeys(deps: KernelDeps): Kernel["trusted_keys"] {
  const { store, clock } = deps;

  async function get({ scope }: Caller, id: string): Promise<TrustedKey> {
    const key = await store.trusted_keys.get(scope.org_id, id);
    if (key === null) throw new BackplaneError("trusted_key.not_found");
    return key;
  }

  async function create(
    caller: Caller,
    key_id: string,
    public_key: string,
    trust: Trust,
  ): Promise<TrustedKey> {
    const key: TrustedKey = {
      id: deps.ids.next("trusted_key"),
      org_id: caller.scope.org_id,
      key_id,
      public_key,
      ...trust,
      created_at: new Date(clock.now()).toISOString(),
      created_by: caller.actor,
      revoked_at: null,
      revoked_reason: null,
    };
    const audit = buildAudit(deps, caller, "trusted_key.trust", key.id, { key_id, ...trust });
    await store.trusted_keys.create(key, { audit });
    return key;
  }

  /** Resolves to null if the key has been changed since it was read. */
  async function update(caller: Caller, key: TrustedKey, trust: Trust): Promise<TrustedKey | null> {
    const changes = findChanges(key, trust);
    if (changes === null) return key;
    const updated = { ...key, ...trust };
    const details = { key_id: key.key_id, name: key.name, ...changes };
    const audit = buildAudit(deps, caller, "trusted_key.update", key.id, details);
    return (await store.trusted_keys.replace(key, updated, { audit })) ? updated : null;
  }

  return {
    get,
    list: ({ scope }, page) => store.trusted_keys.list(scope.org_id, page),
    async trust(caller, { public_key, ...body }) {
      requireKeyAdmin(caller, "trust a signing key");
      const key_object = readPublicKey(public_key);
      const key_id = signingKeyId(key_object);
      const pem = key_object.export({ type: "spki", format: "pem" }) as string;
      // Another request may create or change the key after it was read.
      for (;;) {
        const known = await store.trusted_keys.findByKeyId(caller.scope.org_id, key_id);
        if (known !== null) requireNotRevoked(known);
        const trust = applyBody(known ?? NEW_KEY, body);
        requirePeriod(trust, clock.now());
        if (known !== null) {
          const key = await update(caller, known, trust);
          if (key !== null) return { key, created: false };
          continue;
        }
        try {
          return { key: await create(caller, key_id, pem, trust), created: true };
        } catch (error) {
          if (codeOf(error) !== "trusted_key.conflict") throw error;
        }
      }
    },
    async revoke(caller, id, reason) {
      requireKeyAdmin(caller, "revoke a signing key");
      // Another request may change the key after it was read, which must not undo the revocation.
      for (;;) {
        const key = await get(caller, id);
        if (key.revoked_at !== null) return key;
        const revoked = { ...key, revoked_at: new Date(clock.now()).toISOString(), revoked_reason: reason };
        const details = { key_id: key.key_id, name: key.name, reason };
        const audit = buildAudit(deps, caller, "trusted_key.revoke", id, details);
        if (await store.trusted_keys.replace(key, revoked, { audit })) return revoked;
      }
    },
  };
}

/** Omitted fields keep their values, so a renewal without `packages` does not extend the trust to all packages. */
function applyBody(
  known: Omit<Trust, "name">,
  {
    name,
    packages = known.packages,
    not_before = known.not_before,
    not_after = known.not_after,
  }: Omit<TrustedKeyCreate, "public_key">,
): Trust {
  return { name, packages: [...packages], not_before, not_after };
}

/** Null if nothing changes. */
function findChanges(key: TrustedKey, trust: Trust): JsonObject | null {
  const changed = (["name", "packages", "not_before", "not_after"] as const).filter(
    (field) => canonicalJson(key[field]) !== canonicalJson(trust[field]),
  );
  if (changed.length === 0) return null;
  return Object.fromEntries(changed.map((field) => [field, { from: key[field], to: trust[field] }]));
}

function requireNotRevoked({ key_id, name, revoked_at }: TrustedKey): void {
  if (revoked_at === null) return;
  throw new BackplaneError(
    "trusted_key.conflict",
    `The key ${key_id} (${name}) was revoked at ${revoked_at} and cannot be trusted again.`,
    { details: { key_id, revoked_at } },
  );
}

function requirePeriod({ not_before, not_after }: Trust, now: number): void {
  if (not_after === null) return;
  const until = Date.parse(not_after);
  if (not_before !== null && until <= Date.parse(not_before))
    throw invalidPeriodError(`not_after ${not_after} is not later than not_before ${not_before}.`);
  if (until <= now)
    throw invalidPeriodError(`The period of the key is over: not_after ${not_after} is in the past.`);
}

function invalidPeriodError(message: string): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: "body.not_after", message }] },
    fix: "Send a not_after (--not-after) in the future and after not_before. To end the trust in a key, revoke it.",
  });
}

function requireKeyAdmin(caller: Caller, action: string): void {
  requireWholeOrg(caller, action);
  if (caller.admin) return;
  throw new BackplaneError("auth.scope", `Only an admin credential may ${action}.`, {
    details: { needs: "admin" },
    fix: "Use the admin token, or a key of the whole organization with the scope admin.",
  });
}
