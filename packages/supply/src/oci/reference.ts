/** References of the form `oci://host[:port]/name[:tag][@sha256:…]`. The host is never implied. */
import { BackplaneError } from "@backplane/contract";

/** The host that serves the API of Docker Hub. Image names and logins use its other names. */
export const DOCKER_HUB = "registry-1.docker.io";
export const DOCKER_HUB_NAMES: readonly string[] = ["docker.io", "index.docker.io", DOCKER_HUB];

export interface OciReference {
  /** Host with optional port, in lower case. */
  registry: string;
  repository: string;
  tag: string | null;
  /** `sha256:…` of the manifest. With it, the tag is only a label. */
  digest: string | null;
}

const OCI_SCHEME = "oci://";

const MAX_LENGTH = 1_024;
const MAX_REPOSITORY = 255;
const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;
const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
export const SHA256_DIGEST = /^sha256:[0-9a-f]{64}$/;

export function parseReference(text: string): OciReference {
  if (text.length > MAX_LENGTH) throw invalid(`${text.slice(0, 80)}…`, "it is too long");
  if (!text.startsWith(OCI_SCHEME)) throw invalid(text, `it does not begin with ${OCI_SCHEME}`);
  const rest = text.slice(OCI_SCHEME.length);
  const slash = rest.indexOf("/");
  if (slash <= 0) throw invalid(text, "it has no repository");
  const registry = rest.slice(0, slash).toLowerCase();
  const [path, digest = null, ...more] = rest.slice(slash + 1).split("@") as [string, string?, ...string[]];
  const colon = path.indexOf(":");
  const repository = colon < 0 ? path : path.slice(0, colon);
  const tag = colon < 0 ? null : path.slice(colon + 1);
  if (!HOST.test(registry)) throw invalid(text, `${JSON.stringify(registry)} is not a host`);
  if (!isRepository(repository)) throw invalid(text, `${JSON.stringify(repository)} is not a repository`);
  if (tag !== null && !isTag(tag)) throw invalid(text, `${JSON.stringify(tag)} is not a tag`);
  if (more.length > 0 || (digest !== null && !SHA256_DIGEST.test(digest)))
    throw invalid(text, "its digest is not sha256: and 64 hexadecimal digits");
  if (tag === null && digest === null) throw invalid(text, "it has neither a tag nor a digest");
  return { registry, repository, tag, digest };
}

export function formatReference({ registry, repository, tag, digest }: OciReference): string {
  return `${OCI_SCHEME}${registry}/${repository}${tag === null ? "" : `:${tag}`}${digest === null ? "" : `@${digest}`}`;
}

/**
 * A package whose manifest names another repository as its source is a copy, and the person who installs or publishes
 * it must know that. A source of another kind, such as a URL, implies nothing about registries.
 */
export function requireSameSource(reference: OciReference, source: string, accepted: boolean): void {
  if (accepted || !source.startsWith(OCI_SCHEME)) return;
  const { registry, repository } = parseReference(source);
  if (registry === reference.registry && repository === reference.repository) return;
  const actual = `${OCI_SCHEME}${reference.registry}/${reference.repository}`;
  throw new BackplaneError(
    "package.source_mismatch",
    `The package names ${source} as its source, not ${actual}.`,
    { details: { source, actual } },
  );
}

export function isTag(text: string): boolean {
  return TAG.test(text);
}

function isRepository(text: string): boolean {
  return text.length <= MAX_REPOSITORY && REPOSITORY.test(text);
}

function invalid(text: string, problem: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${text} is not an OCI reference: ${problem}.`, {
    fix: `Write ${OCI_SCHEME}HOST/NAME:TAG or ${OCI_SCHEME}HOST/NAME@sha256:…, such as ${OCI_SCHEME}ghcr.io/acme/devkit:0.1.0.`,
  });
}
