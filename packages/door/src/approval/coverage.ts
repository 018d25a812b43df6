/**
 * What an approval covers (approval.digest): everything that decides what happens when the call runs. Each part has a
 * digest of its own, so that a later question can name the parts that changed; no part holds a value. The digest of
 * all of them is what a person says yes to.
 */

import { hash } from "node:crypto";
import {
  canonicalJson,
  type Grant,
  type Json,
  type JsonObject,
  pluginNamespace,
  runsElsewhere,
} from "@backplane/contract";
import type { BoundPackage, KernelDeps } from "@backplane/ports";
import {
  digestTool,
  hasOwnCredential,
  isPluginSettingField,
  isRemote,
  PLUGIN_SETTINGS_SCOPE,
  parseSecretRef,
  readSignIn,
} from "@backplane/registry";
import type { Coverage, CoveredParts } from "../calls/coverage.ts";
import type { Admitted } from "../policy/admit.ts";

type CoverageDeps = Pick<KernelDeps, "store" | "vault">;

export interface CoveredFacts {
  tool: string;
  package_id: string;
  package_version: string;
  package_digest: string;
  /** What a described package's tool is its bytes do not say. */
  definition: string | null;
  binding_id: string;
  arguments: Json;
  config: JsonObject;
  /** Name, version and birth of what each granted slot holds. */
  secrets: Readonly<Record<string, string>>;
  /** Whose sign-in at a remote server the call uses; null: none. */
  sign_in: Json;
  grant: Grant;
  /** Where its traffic may go. */
  destination: Json;
}

export function coverageOf(facts: CoveredFacts): Coverage {
  const { config, secrets, grant, ...rest } = facts;
  const parts: [string, unknown][] = [
    ...Object.entries(rest),
    ...Object.entries(config).map(([key, value]) => [`config.${key}`, value] as [string, unknown]),
    ...Object.entries(secrets).map(([slot, value]) => [`secret.${slot}`, value] as [string, unknown]),
    ...Object.entries(grant).map(([key, value]) => [`grant.${key}`, inOrder(value)] as [string, unknown]),
  ];
  const digests = Object.fromEntries(
    parts.flatMap(([name, value]) => (value === undefined ? [] : [[name, sha256(value as Json)]])),
  );
  return { digest: `sha256:${sha256(digests)}`, parts: digests };
}

/** The names of the parts that are not the same in both, in order. */
export function changedParts(before: CoveredParts | null, after: CoveredParts): string[] {
  // A question of an earlier version did not say what it covered.
  if (before === null) return ["all"];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => own(before, name) !== own(after, name)).sort();
}

/** As things are now, for a call that was admitted. */
export async function readCoverage(deps: CoverageDeps, { call, grant }: Admitted): Promise<Coverage> {
  const { bound, export: item } = call.plan;
  const described = bound.described !== undefined && item.kind === "tool";
  return await coverUse(deps, bound, {
    tool: bound.binding.export_id,
    definition: described ? digestTool(item, bound.package.schemas) : null,
    arguments: call.input,
    grant,
  });
}

/** The same for whatever else a binding is used for after a person's yes. */
export async function coverUse(
  deps: CoverageDeps,
  bound: BoundPackage,
  use: Pick<CoveredFacts, "tool" | "definition" | "arguments" | "grant">,
): Promise<Coverage> {
  const { binding, package: pack } = bound;
  const { runtime } = pack.manifest;
  const { grant } = use;
  return coverageOf({
    ...use,
    package_id: pack.package_id,
    package_version: pack.version,
    package_digest: pack.digest,
    binding_id: binding.binding_id,
    config: await configOf(deps, bound),
    secrets: await secretVersions(deps, bound, grant),
    sign_in: await signInOf(deps, bound),
    destination: {
      protocol: runtime.protocol,
      address: runsElsewhere(runtime.protocol) ? runtime.entrypoint : null,
      network: grant.network,
      domains: inOrder(grant.allowed_domains) as Json,
    },
  });
}

/**
 * The tools of a kernel plugin have no binding that holds settings: those are in the configuration of the org, and what
 * the plugin may do is in the default org's. Sealed values stay sealed.
 */
async function configOf(
  { store }: CoverageDeps,
  { binding, package: pack }: BoundPackage,
): Promise<JsonObject> {
  if (pack.manifest.runtime.protocol !== "module.kernel") return binding.config;
  const prefix = `plugin.${pluginNamespace(pack.manifest.name)}.`;
  const { org_id } = binding.scope;
  const read = async (org: string): Promise<[field: string, value: string][]> =>
    (await store.config.list(org, prefix)).map(({ key, value }) => [key.slice(prefix.length), value]);
  const own = await read(org_id);
  if (org_id === PLUGIN_SETTINGS_SCOPE.org_id) return Object.fromEntries(own);
  const settings = (await read(PLUGIN_SETTINGS_SCOPE.org_id)).filter(([field]) =>
    isPluginSettingField(field),
  );
  return Object.fromEntries([...own, ...settings]);
}

async function secretVersions(
  { store }: CoverageDeps,
  { binding }: BoundPackage,
  grant: Grant,
): Promise<Record<string, string>> {
  const { org_id } = binding.scope;
  const versions: Record<string, string> = {};
  for (const slot of grant.secret_slots) {
    const ref = binding.secrets[slot];
    const name = ref === undefined ? null : parseSecretRef(ref, org_id);
    const secret = name === null ? null : await store.secrets.get(org_id, name);
    // One that was removed and stored anew begins with version 1 again.
    versions[slot] = secret === null ? "none" : `${secret.name}@${secret.version} of ${secret.created_at}`;
  }
  return versions;
}

/** A renewed token is the same sign-in; another person's, or one at another server, is not. */
async function signInOf(deps: CoverageDeps, bound: BoundPackage): Promise<Json> {
  if (!isRemote(bound) || hasOwnCredential(bound)) return null;
  const { binding_id, scope } = bound.binding;
  const session = (await readSignIn(deps, scope.org_id, binding_id))?.record.session ?? null;
  if (session === null) return null;
  const { issuer, resource, client, signed_in_by, signed_in_at } = session;
  return { issuer, resource, client_id: client.id, signed_in_by, signed_in_at };
}

/** The lists of a grant are sets: the order in which parents named their members means nothing. */
function inOrder(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  return value.toSorted((a, b) => (canonicalJson(a as Json) < canonicalJson(b as Json) ? -1 : 1));
}

function own(parts: CoveredParts, name: string): string | undefined {
  return Object.hasOwn(parts, name) ? parts[name] : undefined;
}

function sha256(value: Json): string {
  return hash("sha256", canonicalJson(value), "hex");
}
