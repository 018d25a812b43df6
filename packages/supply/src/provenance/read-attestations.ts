/**
 * Reads the attestations of a package from the registry that npm installs it from. Only this registry is contacted,
 * whatever address the package metadata contains, and redirects are not followed.
 */
import { codeOf, isObject } from "@backplane/contract";
import { type Operation, requireNotCancelled } from "@backplane/ports";
import type { NpmSettings } from "../npm/npm-settings.ts";
import { createRegistryRequests, type SendToRegistry } from "../oci/registry-requests.ts";
import { readBody } from "../oci/registry-session.ts";
import { invalidProvenance } from "./verify-attestation.ts";

export type FoundAttestations =
  | { state: "found"; bundles: unknown[] }
  | { state: "none" }
  | { state: "unavailable"; reason: string };

/** A document has two attestations of about 10 kB each. */
const MAX_BYTES = 1024 * 1024;
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const MAX_ATTESTATIONS = 16;
const REQUEST_MS = 15_000;
const PROVENANCE = "https://slsa.dev/provenance/";

/** Throws `provenance.invalid` for a document that exceeds a limit or cannot be read. */
export async function readAttestations(
  settings: Pick<NpmSettings, "registryOf" | "upstream">,
  { name, version }: { name: string; version: string },
  operation: Operation,
  request_ms = REQUEST_MS,
): Promise<FoundAttestations> {
  const registry = settings.registryOf(name);
  const escaped = name.replace("/", "%2f");
  const requests = createRegistryRequests({
    addresses: null,
    idle_ms: request_ms,
    proxy: settings.upstream(registry.origin),
  });
  const read = (path: string, max_bytes: number) =>
    readJson(requests.send, resolveUrl(registry, path), max_bytes, operation, request_ms);
  try {
    const path = `-/npm/v1/attestations/${escaped}@${encodeURIComponent(version)}`;
    const { status, json } = await read(path, MAX_BYTES);
    if (status === 200) return selectProvenance({ name, version }, json);
    if (status !== 404) return { state: "unavailable", reason: `${registry.host} returned HTTP ${status}` };
    return (await declaresAttestations(() =>
      read(`${escaped}/${encodeURIComponent(version)}`, MAX_MANIFEST_BYTES),
    ))
      ? { state: "unavailable", reason: `${registry.host} does not serve attestations` }
      : { state: "none" };
  } catch (error) {
    requireNotCancelled(operation);
    const code = codeOf(error);
    if (code === "registry.unreachable") return { state: "unavailable", reason: (error as Error).message };
    if (code === "registry.invalid")
      throw invalidProvenance({ name, version }, (error as Error).message, error);
    throw error;
  } finally {
    requests.close();
  }
}

/** Mirrors often copy the metadata of a package but not its attestations. */
async function declaresAttestations(readManifest: () => Promise<{ json: unknown }>): Promise<boolean> {
  try {
    const { json } = await readManifest();
    return isObject(json) && isObject(json.dist) && isObject(json.dist.attestations);
  } catch {
    return false;
  }
}

function selectProvenance(
  package_version: { name: string; version: string },
  json: unknown,
): FoundAttestations {
  const all = isObject(json) ? json.attestations : undefined;
  if (!Array.isArray(all))
    throw invalidProvenance(package_version, "the registry did not send a list of attestations");
  if (all.length > MAX_ATTESTATIONS)
    throw invalidProvenance(package_version, `the registry sent more than ${MAX_ATTESTATIONS} attestations`);
  const bundles = all
    .filter(isObject)
    .filter(({ predicateType }) => typeof predicateType === "string" && predicateType.startsWith(PROVENANCE))
    .map(({ bundle }) => bundle);
  return bundles.length === 0 ? { state: "none" } : { state: "found", bundles };
}

async function readJson(
  send: SendToRegistry,
  url: URL,
  max_bytes: number,
  { signal }: Operation,
  request_ms: number,
): Promise<{ status: number; json: unknown }> {
  const response = await send({
    method: "GET",
    url,
    headers: { accept: "application/json", "user-agent": "backplane" },
    signal: AbortSignal.any([signal, AbortSignal.timeout(request_ms)]),
  });
  const { status } = response;
  if (status !== 200) {
    response.body.destroy();
    return { status, json: null };
  }
  const bytes = await readBody(response, max_bytes, url.host);
  try {
    return { status, json: JSON.parse(bytes.toString("utf8")) };
  } catch {
    return { status, json: null };
  }
}

/** A registry may have a path of its own. */
function resolveUrl(registry: URL, path: string): URL {
  return new URL(`${registry.origin}${registry.pathname.replace(/\/+$/, "")}/${path}`);
}
