/**
 * Moves a binding to another version of its package. The binding keeps its policy, configuration, secrets and rollout
 * share. Trust is not kept, because it was given to other bytes. Permissions that only the new version requests are
 * withheld until the operator grants them. Credentials are not kept when the server of the new version is at
 * another address (sec.credential-destination), unless the change sets them itself.
 */
import {
  type Binding,
  type BindingPolicy,
  FILESYSTEM_ACCESS,
  type JsonObject,
  type Package,
  type Permissions,
} from "@backplane/contract";
import { buildAudit, type Caller, type KernelDeps } from "@backplane/ports";
import { lowersIsolation } from "../grant/execution-class.ts";
import { listSlots } from "../grant/server-slots.ts";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import { type CheckedExport, findExport, type PackageFinder } from "./check-binding.ts";

export interface CarriedSettings {
  policy: BindingPolicy;
  secrets: Record<string, string>;
  trust_dropped: string[];
}

/** `to` is the export in the new version. */
export function carrySettings(before: Binding, to: CheckedExport): CarriedSettings {
  const { host_target, class: chosen, secret_env, ...kept } = before.policy;
  const lowered =
    chosen !== undefined && (before.class_lowered_by !== null || lowersIsolation(chosen, to.export));
  const trust_dropped: string[] = [];
  if (host_target === true) trust_dropped.push("host_target");
  if (lowered) trust_dropped.push("class");
  const slots = listSlots(to, before);
  return {
    policy: {
      ...kept,
      ...(host_target === false ? { host_target } : {}),
      ...(chosen === undefined || lowered ? {} : { class: chosen }),
      ...(secret_env === undefined ? {} : { secret_env: pickSlots(secret_env, slots) }),
    },
    secrets: pickSlots(before.secrets, slots),
    trust_dropped,
  };
}

/** Narrows the policy to the permissions of the old version. `withheld` names the permissions that it removes. */
export function withholdPermissions(
  policy: BindingPolicy,
  from: Permissions,
  to: Permissions,
): { policy: BindingPolicy; withheld: string[] } {
  const narrowed = { ...policy.permissions };
  const withheld: string[] = [];
  if (to.network === "egress" && from.network === "none" && narrowed.network === undefined) {
    narrowed.network = "none";
    withheld.push("network");
  }
  const rank = (access: Permissions["filesystem"]) => FILESYSTEM_ACCESS.indexOf(access);
  const requested_rank = Math.min(rank(to.filesystem), rank(narrowed.filesystem ?? to.filesystem));
  if (requested_rank > rank(from.filesystem)) {
    narrowed.filesystem = from.filesystem;
    withheld.push("filesystem");
  }
  const scopes = to.gateway_api_scopes.filter(
    (scope) => narrowed.gateway_api_scopes?.includes(scope) ?? true,
  );
  if (scopes.some((scope) => !from.gateway_api_scopes.includes(scope))) {
    narrowed.gateway_api_scopes = scopes.filter((scope) => from.gateway_api_scopes.includes(scope));
    withheld.push("gateway_api_scopes");
  }
  const known = from.allowed_domains ?? [];
  // A version that no longer names its domains would get those that the gateway allows by default.
  const unbounded = from.allowed_domains !== undefined && to.allowed_domains === undefined;
  const domains = policy.allowed_domains === undefined ? (to.allowed_domains ?? []) : [];
  const wider =
    from.network === "egress" &&
    to.network === "egress" &&
    policy.allowed_domains === undefined &&
    (unbounded || domains.some((domain) => !known.includes(domain)));
  if (wider) withheld.push("allowed_domains");
  return {
    policy: {
      ...policy,
      ...(Object.keys(narrowed).length === 0 ? {} : { permissions: narrowed }),
      ...(wider ? { allowed_domains: known } : {}),
    },
    withheld,
  };
}

function pickSlots(secrets: Record<string, string>, slots: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter(([slot]) => slots.includes(slot)));
}

export interface CredentialMoves {
  /** Returns the binding without the credentials that it may not take to the new version. */
  withoutOldCredentials(before: Binding, to: CheckedExport): Promise<Binding>;
  /** Call it after the move is stored: ends the sign-in at the old address and audits the dropped credentials. */
  dropOldCredentials(caller: Caller, before: Binding, row: Binding, to: CheckedExport): Promise<void>;
}

export function createCredentialMoves(
  deps: Pick<KernelDeps, "store" | "ids" | "clock">,
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">,
  packages: PackageFinder,
): CredentialMoves {
  const { store } = deps;

  async function movesServer(before: Binding, to: CheckedExport): Promise<boolean> {
    if (before.package_version === to.package.version) return false;
    const from = await findExport(packages, before.scope.org_id, before);
    return hasOtherServer(from.package, to.package);
  }

  return {
    async withoutOldCredentials(before, to) {
      if (!(await movesServer(before, to))) return before;
      return { ...before, secrets: {}, config: withoutHeaders(before.config) };
    },
    async dropOldCredentials(caller, before, row, to) {
      if (!(await movesServer(before, to))) return;
      const { binding_id, scope } = before;
      const tokens = await revocation.readTokens(before);
      const slots = Object.keys(before.secrets).filter((slot) => row.secrets[slot] === undefined);
      const details = { slots, sign_in: tokens !== null };
      const audit = buildAudit(deps, caller, "credential.drop", binding_id, details, scope);
      const removed = await store.sign_ins.remove(scope.org_id, binding_id, { audit });
      if (!removed && slots.length > 0) await store.audit.append(audit);
      void revocation.revoke(before, tokens);
    },
  };
}

function hasOtherServer(before: Package, after: Package): boolean {
  const [old, next] = [serverOf(before), serverOf(after)];
  if (!old.remote && !next.remote) return false;
  if (old.remote !== next.remote) return true;
  return old.url !== next.url;
}

function serverOf({ manifest: { runtime } }: Package): { remote: boolean; url: string } {
  return { remote: runtime.protocol === "mcp.http", url: runtime.entrypoint[0] ?? "" };
}

/** Headers are sent with every request, and an operator may have put a credential there instead of in a secret. */
function withoutHeaders({ headers: _headers, ...config }: JsonObject): JsonObject {
  return config;
}
