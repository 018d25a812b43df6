/**
 * Moves a binding to another version of its package. The binding keeps its policy, configuration, secrets and rollout
 * share. Trust in the content of the old version (`host_target`, a lowered class) is not kept. Permissions that only
 * the new version requests are withheld until an owner or admin grants them. Credentials are not kept when the server
 * of the new version is at another address (sec.credential-destination), unless the change sets them itself.
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
import { covers, normalizeDomains } from "../grant/domains.ts";
import { lowersIsolation } from "../grant/execution-class.ts";
import { intersect } from "../grant/intersect.ts";
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
  const { host_target, class: execution_class, secret_env, ...policy } = before.policy;
  const is_lowered =
    execution_class !== undefined &&
    (before.class_lowered_by !== null || lowersIsolation(execution_class, to.export));
  const trust_dropped: string[] = [];
  if (host_target === true) trust_dropped.push("host_target");
  if (is_lowered) trust_dropped.push("class");
  const slots = listSlots(to, before);
  return {
    policy: {
      ...policy,
      ...(host_target === false ? { host_target } : {}),
      ...(execution_class === undefined || is_lowered ? {} : { class: execution_class }),
      ...(secret_env === undefined ? {} : { secret_env: pickSlots(secret_env, slots) }),
    },
    secrets: pickSlots(before.secrets, slots),
    trust_dropped,
  };
}

type HeldPermission = NonNullable<Binding["previous"]>["permissions_held"][number];

export interface WithheldPermissions {
  policy: BindingPolicy;
  /** Permissions that only the new version requests, and that the narrowed policy withholds. */
  withheld: HeldPermission[];
  /** Permissions that only the new version requests, and that a limit of the policy already withholds. */
  limited: HeldPermission[];
}

/**
 * Narrows the policy to the permissions of the old version. A value that the policy had before the move was not chosen
 * for the new version, so it grants nothing; `set` is the policy that the change itself sets.
 */
export function withholdPermissions(
  policy: BindingPolicy,
  from: Permissions,
  to: Permissions,
  set: BindingPolicy = {},
): WithheldPermissions {
  const narrowed = { ...policy.permissions };
  const withheld: HeldPermission[] = [];
  const limited: HeldPermission[] = [];
  if (to.network === "egress" && from.network === "none" && set.permissions?.network !== "egress") {
    (narrowed.network === "none" ? limited : withheld).push("network");
    narrowed.network = "none";
  }
  const rank = (access: Permissions["filesystem"]) => FILESYSTEM_ACCESS.indexOf(access);
  if (rank(to.filesystem) > rank(from.filesystem)) {
    const is_limited = rank(narrowed.filesystem ?? to.filesystem) <= rank(from.filesystem);
    (is_limited ? limited : withheld).push("filesystem");
    if (!is_limited) narrowed.filesystem = from.filesystem;
  }
  const isKnown = (scope: Permissions["gateway_api_scopes"][number]) =>
    from.gateway_api_scopes.includes(scope);
  if (!to.gateway_api_scopes.every(isKnown)) {
    const scopes = to.gateway_api_scopes.filter(
      (scope) => narrowed.gateway_api_scopes?.includes(scope) ?? true,
    );
    const is_limited = scopes.every(isKnown);
    (is_limited ? limited : withheld).push("gateway_api_scopes");
    if (!is_limited) narrowed.gateway_api_scopes = scopes.filter(isKnown);
  }
  const domains = withholdDomains(policy, from, to, set);
  if (domains !== null) (domains.is_limited ? limited : withheld).push("allowed_domains");
  return {
    policy: {
      ...policy,
      ...(Object.keys(narrowed).length === 0 ? {} : { permissions: narrowed }),
      ...(domains === null || domains.is_limited ? {} : { allowed_domains: domains.known }),
    },
    withheld,
    limited,
  };
}

/**
 * Returns the domains that the policy must list so that the new version reaches no others, and whether the policy's own
 * list already limits the version to them. Null if the new version requests no further domains, or if the change itself
 * allows them.
 */
function withholdDomains(
  { allowed_domains: policy_domains }: BindingPolicy,
  from: Permissions,
  to: Permissions,
  set: BindingPolicy,
): { known: string[]; is_limited: boolean } | null {
  if (from.network !== "egress" || to.network !== "egress") return null;
  const known = from.allowed_domains ?? [];
  const isKnown = (domain: string) => known.some((wide) => covers(wide, domain));
  // A version that no longer lists its domains would get those that the gateway allows by default.
  const loses_its_list = from.allowed_domains !== undefined && to.allowed_domains === undefined;
  if (!loses_its_list && (to.allowed_domains ?? []).every(isKnown)) return null;
  if (policy_domains === undefined) return { known, is_limited: false };
  // The old version listed no domains, so the list of the policy was its only limit, and it still applies.
  if (from.allowed_domains === undefined) return null;
  const common =
    intersect({ allowed_domains: policy_domains }, { allowed_domains: known }).allowed_domains ?? [];
  const is_limited = normalizeDomains(policy_domains).every((domain) => common.includes(domain));
  return !is_limited && set.allowed_domains !== undefined ? null : { known: [...common], is_limited };
}

function pickSlots(secrets: Record<string, string>, slots: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).filter(([slot]) => slots.includes(slot)));
}

export interface CredentialMoves {
  /** Returns the binding without the credentials that it may not take to the new version. */
  withoutOldCredentials(before: Binding, to: CheckedExport): Promise<Binding>;
  /**
   * If the new version uses another server, ends the sign-in to the old one and audits the dropped credentials. Must be
   * called after the move is stored.
   */
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
