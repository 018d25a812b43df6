/**
 * Checks a binding that is created, changed or validated: the export is installed, the config matches its schema, the
 * secrets exist, and the policy fits the export. Unbound slots are not an error; they keep the binding inactive.
 */

import {
  BackplaneError,
  type Binding,
  type BindingPolicy,
  ENV_SECRET_PROTOCOLS,
  isSelfDescribing,
  type Package,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage, KernelDeps, PackageStore, SchemaIssue } from "@backplane/ports";
import { combineTools, toolsOf } from "../exports/whole-package.ts";
import { hasOpenSlots, listSlots } from "../grant/server-slots.ts";
import { parseSecretRef } from "../secrets/binding-secrets.ts";
import { isRegistrySecret } from "../secrets/registry-credentials.ts";
import { isUsableIn } from "../secrets/secrets.ts";

export interface CheckedExport {
  package: Package;
  /** For a binding of the whole package, the result of `combineTools`. */
  export: PluginExport;
}

export function isInstrument({ package: { manifest } }: Pick<BoundPackage, "package">): boolean {
  return manifest.runtime.instrument !== undefined;
}

export type PackageFinder = Pick<PackageStore, "find">;

export async function findExport(
  packages: PackageFinder,
  org_id: string,
  reference: Pick<Binding, "package_id" | "package_version" | "export_id">,
): Promise<CheckedExport> {
  const { package_id, package_version, export_id } = reference;
  const pack = await packages.find(org_id, package_id, package_version);
  if (pack === null) {
    throw invalidBinding([
      { path: "/package_version", message: `${package_id} ${package_version} is not installed` },
    ]);
  }
  if (export_id === WHOLE_PACKAGE) {
    const combined = combineTools(pack);
    if (combined !== null) return { package: pack, export: combined };
    throw invalidBinding([{ path: "/export_id", message: `${package_id} has no tools to bind with "*"` }]);
  }
  if (isSelfDescribing(pack.manifest.runtime.protocol)) {
    const message = `the tools of ${package_id} are known only when it runs; bind all of them with "*"`;
    throw invalidBinding([{ path: "/export_id", message }]);
  }
  const item = pack.manifest.exports.find((declared) => declared.id === export_id);
  if (item === undefined) {
    const offered = pack.manifest.exports.map((declared) => declared.id).join(", ");
    throw invalidBinding([
      { path: "/export_id", message: `${package_id} exports ${offered}, not ${export_id}` },
    ]);
  }
  return { package: pack, export: item };
}

export async function checkBinding(
  deps: Pick<KernelDeps, "store" | "schemas">,
  checked: CheckedExport,
  binding: Pick<Binding, "config" | "secrets" | "policy" | "scope">,
): Promise<SchemaIssue[]> {
  return [
    ...(await findConfigIssues(deps, checked, binding)),
    ...(await findSecretIssues(deps, checked, binding)),
    ...findPolicyIssues(checked, binding.policy),
    ...findSecretEnvIssues(checked, binding),
  ];
}

/** Returns the slots without a secret. Every slot is required. */
export function findUnboundSlots(
  checked: CheckedExport,
  binding: Pick<Binding, "config" | "secrets">,
): string[] {
  return listSlots(checked, binding).filter((slot) => binding.secrets[slot] === undefined);
}

export function invalidBinding(issues: readonly SchemaIssue[]): BackplaneError {
  const first = issues[0]!;
  return new BackplaneError("binding.invalid", `${first.path}: ${first.message}`, { details: { issues } });
}

async function findConfigIssues(
  deps: Pick<KernelDeps, "schemas">,
  checked: CheckedExport,
  binding: Pick<Binding, "config">,
): Promise<SchemaIssue[]> {
  const { package: pack, export: item } = checked;
  const bound = item.id === WHOLE_PACKAGE ? toolsOf(pack) : [item];
  const issues: SchemaIssue[] = [];
  for (const path of new Set(bound.flatMap((declared) => declared.config_schema ?? []))) {
    const check = await deps.schemas.compile(`${pack.digest}#${path}`, pack.schemas[path]);
    for (const { path: at, message } of await check(binding.config)) {
      issues.push({ path: `/config${at}`, message });
    }
  }
  return issues;
}

async function findSecretIssues(
  deps: Pick<KernelDeps, "store">,
  checked: CheckedExport,
  binding: Pick<Binding, "config" | "secrets" | "scope">,
): Promise<SchemaIssue[]> {
  const issues: SchemaIssue[] = [];
  const { org_id, project_id } = binding.scope;
  for (const [slot, ref] of Object.entries(binding.secrets)) {
    const path = `/secrets/${slot}`;
    if (!listSlots(checked, binding).includes(slot)) {
      issues.push({ path, message: "the export does not declare this slot" });
      continue;
    }
    // A secret of another org or project is reported exactly like one that does not exist.
    const name = parseSecretRef(ref, org_id);
    const secret = name === null ? null : await deps.store.secrets.get(org_id, name);
    if (secret === null || !isUsableIn(secret, project_id))
      issues.push({ path, message: `there is no secret ${ref}` });
    else if (isRegistrySecret(secret.name))
      issues.push({
        path,
        message: `${secret.name} is a credential for a registry, which no plugin receives`,
      });
  }
  return issues;
}

/**
 * Secrets are sent in the request; the environment is allowed only for protocols that have no such channel
 * (secret.slots).
 */
function findSecretEnvIssues(
  checked: CheckedExport,
  binding: Pick<Binding, "config" | "secrets" | "policy">,
): SchemaIssue[] {
  const { secret_env } = binding.policy;
  if (secret_env === undefined) return [];
  const { protocol } = checked.package.manifest.runtime;
  if (!ENV_SECRET_PROTOCOLS.includes(protocol)) {
    const message = `${protocol} receives secrets in the request; only ${ENV_SECRET_PROTOCOLS.join(" and ")} receive them in the environment`;
    return [{ path: "/policy/secret_env", message }];
  }
  const issues: SchemaIssue[] = [];
  const variables = Object.values(secret_env);
  const slots = listSlots(checked, binding);
  for (const [slot, variable] of Object.entries(secret_env)) {
    const path = `/policy/secret_env/${slot}`;
    if (!slots.includes(slot)) {
      const message = hasOpenSlots(checked.package)
        ? "this slot has no secret"
        : "the export does not declare this slot";
      issues.push({ path, message });
    } else if (variables.filter((name) => name === variable).length > 1) {
      issues.push({ path, message: `${variable} is used for more than one slot` });
    }
  }
  return issues;
}

function findPolicyIssues(
  { package: pack, export: item }: CheckedExport,
  policy: BindingPolicy,
): SchemaIssue[] {
  const issues: SchemaIssue[] = [];
  if (item.kind === "hook" && policy.approval === "always") {
    const message = "a hook runs in the background, so nobody can approve it";
    issues.push({ path: "/policy/approval", message });
  }
  const { protocol } = pack.manifest.runtime;
  // The door refuses such a call as well, but only when it is made.
  if (policy.class === "inline" && !protocol.startsWith("module.")) {
    const message = `a ${protocol} plugin runs in its own process and cannot run inline; choose worker or isolated`;
    issues.push({ path: "/policy/class", message });
  }
  return issues;
}
