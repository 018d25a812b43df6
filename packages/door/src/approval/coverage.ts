/**
 * The coverage of an approval (approval.digest): everything that decides what happens when the call runs. Each part has
 * its own digest, so that a follow-up approval can name the parts that changed without storing their values. A person
 * approves the digest of all parts.
 */

import { hash } from "node:crypto";
import {
  canonicalJson,
  type Grant,
  isRemoteProtocol,
  type Json,
  type JsonObject,
  pluginNamespace,
} from "@backplane/contract";
import type { BoundPackage, KernelDeps } from "@backplane/ports";
import {
  digestTool,
  effectiveConfig,
  hasOwnCredential,
  isPluginSettingField,
  isRemote,
  PLUGIN_SETTINGS_SCOPE,
  parseSecretRef,
  readStoredSignIn,
} from "@backplane/registry";
import type { Admitted } from "../admission/admit.ts";
import type { Coverage, CoveredParts } from "../calls/live-calls.ts";

type CoverageDeps = Pick<KernelDeps, "store" | "vault" | "host">;

export interface CoveredInputs {
  tool: string;
  package_id: string;
  package_version: string;
  package_digest: string;
  /** The digest of a tool that the running package describes; null if the package's bytes define the tool. */
  definition: string | null;
  binding_id: string;
  arguments: Json;
  config: JsonObject;
  /** Name, version and creation time of the secret in each granted slot. */
  secrets: Readonly<Record<string, string>>;
  /** The sign-in that the call uses at a remote server, if any. */
  sign_in: Json;
  grant: Grant;
  /** The destinations to which the call may send traffic. */
  destination: Json;
}

export function coverageOf(inputs: CoveredInputs): Coverage {
  const { config, secrets, grant, ...other_inputs } = inputs;
  const parts: [string, unknown][] = [
    ...Object.entries(other_inputs),
    ...Object.entries(config).map(([key, value]) => [`config.${key}`, value] as [string, unknown]),
    ...Object.entries(secrets).map(([slot, value]) => [`secret.${slot}`, value] as [string, unknown]),
    ...Object.entries(grant).map(([key, value]) => [`grant.${key}`, sortList(value)] as [string, unknown]),
  ];
  const digests = Object.fromEntries(
    parts.flatMap(([name, value]) => (value === undefined ? [] : [[name, sha256(value as Json)]])),
  );
  return { digest: `sha256:${sha256(digests)}`, parts: digests };
}

/** The digest of everything but the arguments, for an answer that covers a tool. */
export function toolDigestOf({ arguments: _arguments, ...parts }: CoveredParts): string {
  return `tool:sha256:${sha256(parts)}`;
}

/** The sorted names of the parts that differ. */
export function listChangedParts(before: CoveredParts | null, after: CoveredParts): string[] {
  // Earlier gateway versions did not store the parts.
  if (before === null) return ["all"];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => getOwn(before, name) !== getOwn(after, name)).sort();
}

/** The coverage of an admitted or running call, read from the current state of the store. */
export async function readCoverage(
  deps: CoverageDeps,
  { call, grant }: Pick<Admitted, "call" | "grant">,
): Promise<Coverage> {
  const { bound, export: item } = call.plan;
  const is_described = bound.definitions_digest !== undefined && item.kind === "tool";
  return await readUseCoverage(deps, bound, {
    tool: bound.binding.export_id,
    definition: is_described ? digestTool(item, bound.package.schemas) : null,
    arguments: call.input,
    grant,
  });
}

/** The coverage of any use of a binding that a person may have to approve. */
export async function readUseCoverage(
  deps: CoverageDeps,
  bound: BoundPackage,
  use: Pick<CoveredInputs, "tool" | "definition" | "arguments" | "grant">,
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
    config: await readConfig(deps, bound),
    secrets: await readSecretVersions(deps, bound, grant),
    sign_in: await readSignInIdentity(deps, bound),
    destination: {
      protocol: runtime.protocol,
      address: isRemoteProtocol(runtime.protocol) ? runtime.entrypoint : null,
      network: grant.network,
      domains: sortList(grant.allowed_domains) as Json,
    },
  });
}

/**
 * A kernel plugin has no stored binding. Its own configuration belongs to the org; the settings that the kernel reads,
 * such as its permissions, belong to the default org. Sealed values stay sealed.
 */
async function readConfig({ host, store }: CoverageDeps, bound: BoundPackage): Promise<JsonObject> {
  const { binding, package: pack } = bound;
  if (pack.manifest.runtime.protocol !== "module.kernel") return effectiveConfig(host, bound);
  const prefix = `plugin.${pluginNamespace(pack.manifest.name)}.`;
  const { org_id } = binding.scope;
  const read = async (org: string): Promise<[field: string, value: string][]> =>
    (await store.config.list(org, prefix)).map(({ key, value }) => [key.slice(prefix.length), value]);
  const org_config = await read(org_id);
  if (org_id === PLUGIN_SETTINGS_SCOPE.org_id) return Object.fromEntries(org_config);
  const settings = (await read(PLUGIN_SETTINGS_SCOPE.org_id)).filter(([field]) =>
    isPluginSettingField(field),
  );
  return Object.fromEntries([...org_config, ...settings]);
}

async function readSecretVersions(
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
    // A secret that was removed and stored again starts at version 1, so the version alone would not tell them apart.
    versions[slot] = secret === null ? "none" : `${secret.name}@${secret.version} of ${secret.created_at}`;
  }
  return versions;
}

/** Stays the same when a token is renewed, and changes with each new sign-in. */
async function readSignInIdentity(deps: CoverageDeps, bound: BoundPackage): Promise<Json> {
  if (!isRemote(bound) || hasOwnCredential(bound)) return null;
  const { binding_id, scope } = bound.binding;
  const session = (await readStoredSignIn(deps, scope.org_id, binding_id))?.record.session ?? null;
  if (session === null) return null;
  const { issuer, resource, client, signed_in_by, signed_in_at } = session;
  return { issuer, resource, client_id: client.id, signed_in_by, signed_in_at };
}

/** The lists of a grant are sets, so their order must not change the digest. */
function sortList(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  return value.toSorted((a, b) => (canonicalJson(a as Json) < canonicalJson(b as Json) ? -1 : 1));
}

function getOwn(parts: CoveredParts, name: string): string | undefined {
  return Object.hasOwn(parts, name) ? parts[name] : undefined;
}

function sha256(value: Json): string {
  return hash("sha256", canonicalJson(value), "hex");
}
