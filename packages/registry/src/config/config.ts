/**
 * The configuration as callers outside the kernel see it. Values under secret keys are masked; the real value is
 * returned only to an admin who requests that one key, and the request is in the audit log before the value is
 * returned.
 */

import {
  BackplaneError,
  type ConfigMap,
  configPrefixOf,
  isConfigKey,
  isSecretConfigKey,
  type Json,
} from "@backplane/contract";
import {
  buildAudit,
  type Caller,
  type ConfigRow,
  isWholeOrg,
  type Kernel,
  type KernelDeps,
  type Store,
} from "@backplane/ports";
import type { LiveConfig } from "./live-config.ts";
import { requireConfigSet, requireConfigUnset } from "./write-authority.ts";

const MASK = "****";
/** How many characters at the end of a secret stay visible. */
const VISIBLE_CHARS = 4;

export function createConfig(deps: KernelDeps, live: LiveConfig): Kernel["config"] {
  async function get(caller: Caller, key: string, options: { show?: boolean } = {}) {
    if (!isConfigKey(key)) {
      const message =
        "A key consists of dotted segments of letters, digits, _ and -, such as plugin.llm_openai.base_url.";
      throw new BackplaneError("request.invalid", message, {
        details: { issues: [{ path: "key", message }] },
      });
    }
    if (options.show === true) return { key, value: await reveal(caller, key) };
    const row = await deps.store.config.get(caller.scope.org_id, key);
    if (row === null) throw new BackplaneError("config.not_found");
    return { key, value: maskRow(caller.scope.org_id, row) };
  }

  async function reveal(caller: Caller, key: string): Promise<Json> {
    requireAdmin(caller, "read the value of a secret key");
    const value = await live.get(caller.scope.org_id, key);
    if (value === undefined) throw new BackplaneError("config.not_found");
    await deps.store.audit.append(buildAudit(deps, caller, "config.show", key));
    return value;
  }

  async function list(caller: Caller): Promise<ConfigMap> {
    const { org_id } = caller.scope;
    const rows = await live.listRows(org_id, "");
    return Object.fromEntries(rows.map((row) => [row.key, maskRow(org_id, row)]));
  }

  async function set(caller: Caller, values: Readonly<Record<string, Json>>): Promise<string[]> {
    const keys = Object.keys(values);
    requireConfigSet(caller, keys);
    const audit = buildAudit(deps, caller, "config.set", auditSubjectOf(keys), { keys });
    const dropped = await live.write(caller.scope.org_id, { set: values }, { audit });
    await auditDroppedCredentials(deps, caller, dropped);
    return dropped;
  }

  async function unset(caller: Caller, pattern: string): Promise<string[]> {
    requireConfigUnset(caller, pattern);
    const audit = buildAudit(deps, caller, "config.unset", pattern);
    const removed = await live.write(caller.scope.org_id, { unset: [pattern] }, { audit });
    const prefix = configPrefixOf(pattern);
    const isRequested = (key: string) => (prefix === null ? key === pattern : key.startsWith(prefix));
    await auditDroppedCredentials(
      deps,
      caller,
      removed.filter((key) => !isRequested(key)),
    );
    return removed;
  }

  /** A value that cannot be decrypted is still listed, fully masked. */
  function maskRow(org_id: string, row: ConfigRow): Json {
    try {
      return maskValue(row.key, live.open(org_id, row));
    } catch (error) {
      deps.log.warn({ err: error, key: row.key }, "a configuration value could not be decrypted");
      return maskValue(row.key, null);
    }
  }

  return { get, list, set, unset, onUpdated: (listener) => live.onUpdated(listener) };
}

/** Applies config.mask: returns the value of a plain key unchanged, and only the last characters of a secret. */
export function maskValue(key: string, value: Json): Json {
  if (!isSecretConfigKey(key)) return value;
  return typeof value === "string" && value.length > VISIBLE_CHARS
    ? `${MASK}${value.slice(-VISIBLE_CHARS)}`
    : MASK;
}

/** Records the keys of credentials that were removed because their destination changed. */
export async function auditDroppedCredentials(
  deps: Pick<KernelDeps, "ids" | "clock"> & { store: Pick<Store, "audit"> },
  caller: Caller,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return;
  const audit = buildAudit(deps, caller, "credential.drop", auditSubjectOf(keys), { keys: [...keys] });
  await deps.store.audit.append(audit);
}

function requireAdmin(caller: Caller, action: string): void {
  // The configuration belongs to the org, so the admin of one project is not enough.
  if (caller.admin && isWholeOrg(caller)) return;
  throw new BackplaneError("auth.scope", `Only an admin credential may ${action}.`, {
    details: { needs: "admin" },
    fix: "Use the admin token, or a key of the whole organization with the scope admin.",
  });
}

function auditSubjectOf(keys: readonly string[]): string {
  return keys.length === 1 ? keys[0]! : `${keys.length} keys`;
}
