/**
 * The configuration as the edges see it: masked. The value under a secret key is answered only to an admin who asks
 * for this one key, and the asking is on the record before the answer is given.
 */

import { BackplaneError, type ConfigMap, configPrefixOf, isConfigKey, type Json } from "@backplane/contract";
import {
  auditOf,
  type Caller,
  type ConfigRow,
  isWholeOrg,
  type Kernel,
  type KernelDeps,
} from "@backplane/ports";
import { auditDroppedCredentials } from "./dropped.ts";
import type { LiveConfig } from "./live-config.ts";
import { maskValue } from "./mask.ts";
import { requireConfigSet, requireConfigUnset } from "./write-rules.ts";

export function createConfig(deps: KernelDeps, live: LiveConfig): Kernel["config"] {
  async function get(caller: Caller, key: string, options: { show?: boolean } = {}) {
    if (!isConfigKey(key)) {
      const message =
        "A key is dotted segments of letters, digits, _ and -, such as plugin.llm_openai.base_url.";
      throw new BackplaneError("request.invalid", message, {
        details: { issues: [{ path: "key", message }] },
      });
    }
    if (options.show === true) return { key, value: await reveal(caller, key) };
    const row = await deps.store.config.get(caller.scope.org_id, key);
    if (row === null) throw new BackplaneError("config.not_found");
    return { key, value: masked(caller.scope.org_id, row) };
  }

  async function reveal(caller: Caller, key: string): Promise<Json> {
    requireAdmin(caller, "read the value of a secret key");
    const value = await live.get(caller.scope.org_id, key);
    if (value === undefined) throw new BackplaneError("config.not_found");
    await deps.store.audit.append(auditOf(deps, caller, "config.show", key));
    return value;
  }

  async function list(caller: Caller): Promise<ConfigMap> {
    const { org_id } = caller.scope;
    const rows = await live.rows(org_id, "");
    return Object.fromEntries(rows.map((row) => [row.key, masked(org_id, row)]));
  }

  async function set(caller: Caller, values: Readonly<Record<string, Json>>): Promise<string[]> {
    const keys = Object.keys(values);
    requireConfigSet(caller, keys);
    const audit = auditOf(deps, caller, "config.set", subjectOf(keys), { keys });
    const dropped = await live.write(caller.scope.org_id, { set: values }, { audit });
    await auditDroppedCredentials(deps, caller, dropped);
    return dropped;
  }

  async function unset(caller: Caller, pattern: string): Promise<string[]> {
    requireConfigUnset(caller, pattern);
    const audit = auditOf(deps, caller, "config.unset", pattern);
    const removed = await live.write(caller.scope.org_id, { unset: [pattern] }, { audit });
    const prefix = configPrefixOf(pattern);
    const asked = (key: string) => (prefix === null ? key === pattern : key.startsWith(prefix));
    await auditDroppedCredentials(
      deps,
      caller,
      removed.filter((key) => !asked(key)),
    );
    return removed;
  }

  /** A value that cannot be opened has no last four; that it is there is still worth showing. */
  function masked(org_id: string, row: ConfigRow): Json {
    try {
      return maskValue(row.key, live.open(org_id, row));
    } catch (error) {
      deps.log.warn({ err: error, key: row.key }, "a configuration value cannot be opened");
      return maskValue(row.key, null);
    }
  }

  return { get, list, set, unset, onUpdated: (listener) => live.onUpdated(listener) };
}

function requireAdmin(caller: Caller, what: string): void {
  // The configuration is the whole org's: a project's admin is none here.
  if (caller.admin && isWholeOrg(caller)) return;
  throw new BackplaneError("auth.scope", `Only an admin credential may ${what}.`, {
    details: { needs: "admin" },
    fix: "Use the admin token, or a key with the scope admin.",
  });
}

function subjectOf(keys: string[]): string {
  return keys.length === 1 ? keys[0]! : `${keys.length} keys`;
}
