/**
 * A package as an OCI artifact (docs/decisions/0037-packages-in-oci-registries.md): the config blob is the listing of
 * the files, so its digest is the digest of the package, and the only layer is the archive of these files. A registry
 * and an image layout are read by the same code, and nothing they contain is trusted before its digest has been
 * verified.
 */
import { BackplaneError } from "@backplane/contract";
import { UNPACK_LIMITS } from "../archive/limits.ts";
import { parseListing, type TreeFile } from "../tree/tree-listing.ts";
import type { Descriptor, ImageManifest } from "./descriptors.ts";
import type { FetchedManifest } from "./registry-client.ts";

export const PLUGIN_TYPE = "application/vnd.vai.plugin.v1";
/** The listing of the files. */
export const FILES_TYPE = "application/vnd.vai.plugin.files.v1";
export const LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip";
export const SIGNATURE_TYPE = "application/vnd.vai.plugin.signature.v1+json";
export const TITLE_ANNOTATION = "org.opencontainers.image.title";
export const SOURCE_ANNOTATION = "org.opencontainers.image.source";
export const VERSION_ANNOTATION = "org.opencontainers.image.version";

export const MAX_LISTING_BYTES = 16 * 1024 * 1024;
export const MAX_SIGNATURE_BYTES = 64 * 1024;
/** Several keys may have signed the package, for example during a rotation. */
const MAX_SIGNATURES = 8;

/** The machine that the package is chosen for. */
export interface ArtifactPlatform {
  os: string;
  arch: string;
}

/** An artifact in a registry or in a layout. Everything that is read has the digest of its descriptor. */
export interface ArtifactSource {
  /** Reads the requested manifest or index. */
  readRoot(): Promise<FetchedManifest>;
  readManifest(digest: string): Promise<FetchedManifest>;
  readBlob(blob: Descriptor, max_bytes: number): Promise<Buffer>;
  /** Returns the path of a file that contains the blob, after downloading it from a registry. */
  fetchFile(blob: Descriptor): Promise<string>;
  /** Lists the signatures of the manifest with this digest. */
  listSignatures(digest: string): Promise<readonly Descriptor[]>;
}

export interface PluginArtifact {
  manifest_digest: string;
  /** The digest of the package. */
  digest: string;
  files: readonly TreeFile[];
  layer: Descriptor;
  /**
   * The values that the publisher states in the artifact; the installation compares them with the package's manifest.
   */
  package_id: string | null;
  version: string | null;
  /** Empty if the publisher states no source. */
  source: string;
  /** The content of the signatures, unverified. */
  signatures: readonly unknown[];
  /** The manifests and blobs of these signatures. */
  signature_artifacts: readonly { manifest: FetchedManifest; config: Descriptor; blob: Descriptor }[];
}

/** Reads only the manifest: what the publisher states about the package, and the digest of the manifest. */
export async function readStatedIdentity(
  store: Pick<ArtifactSource, "readRoot" | "readManifest">,
  host: ArtifactPlatform,
): Promise<Pick<PluginArtifact, "manifest_digest" | "package_id" | "version">> {
  const { digest: manifest_digest, document } = await findPluginManifest(store, host);
  return { manifest_digest, ...statedIdentity(document) };
}

/** Reads everything but the files of the package. */
export async function readPluginArtifact(
  store: ArtifactSource,
  host: ArtifactPlatform,
): Promise<PluginArtifact> {
  const { digest: manifest_digest, document } = await findPluginManifest(store, host);
  const [layer, ...more] = document.layers;
  if (layer === undefined || more.length > 0 || layer.media_type !== LAYER_TYPE)
    throw invalidArtifact(`it does not have exactly one layer of the type ${LAYER_TYPE}`);
  if (layer.size > UNPACK_LIMITS.unpacked_bytes)
    throw invalidArtifact(`its layer has ${layer.size} bytes; the limit is ${UNPACK_LIMITS.unpacked_bytes}`);
  if (document.config.size > MAX_LISTING_BYTES)
    throw invalidArtifact(`its listing has ${document.config.size} bytes; the limit is ${MAX_LISTING_BYTES}`);
  const listing = await store.readBlob(document.config, MAX_LISTING_BYTES);
  const signature_entries = await readSignatures(store, manifest_digest);
  return {
    manifest_digest,
    digest: document.config.digest,
    files: readFiles(listing),
    layer,
    ...statedIdentity(document),
    source: document.annotations[SOURCE_ANNOTATION] ?? "",
    signatures: signature_entries.map(({ content }) => content),
    signature_artifacts: signature_entries.map(({ content: _content, ...artifact }) => artifact),
  };
}

function statedIdentity({ annotations }: ImageManifest): Pick<PluginArtifact, "package_id" | "version"> {
  return {
    package_id: annotations[TITLE_ANNOTATION] ?? null,
    version: annotations[VERSION_ANNOTATION] ?? null,
  };
}

/** An index may list one manifest for each platform. An index inside an index is refused. */
async function findPluginManifest(
  store: Pick<ArtifactSource, "readRoot" | "readManifest">,
  host: ArtifactPlatform,
): Promise<{ digest: string; document: ImageManifest }> {
  const root = await store.readRoot();
  if (root.document.kind === "manifest")
    return { digest: root.digest, document: requirePlugin(root.document) };
  const plugins = root.document.manifests.filter(
    ({ artifact_type }) => artifact_type === null || artifact_type === PLUGIN_TYPE,
  );
  const matching = plugins.filter(
    ({ platform }) => platform === null || (platform.os === host.os && platform.architecture === host.arch),
  );
  const chosen = matching.find(({ platform }) => platform !== null) ?? matching[0];
  if (chosen === undefined)
    throw invalidArtifact(`its index has no plugin package for ${host.os}/${host.arch}`);
  if (chosen.platform === null && matching.length > 1)
    throw invalidArtifact(`its index has ${matching.length} plugin packages; specify one by its digest`);
  const { digest, bytes, document } = await store.readManifest(chosen.digest);
  if (bytes.length !== chosen.size)
    throw invalidArtifact(`its manifest has ${bytes.length} bytes instead of ${chosen.size}`);
  if (document.kind !== "manifest") throw invalidArtifact("its index contains another index");
  return { digest, document: requirePlugin(document) };
}

function requirePlugin(document: ImageManifest): ImageManifest {
  const type = document.artifact_type ?? document.config.media_type;
  if (type === PLUGIN_TYPE && document.config.media_type === FILES_TYPE) return document;
  throw invalidArtifact(`it is ${JSON.stringify(type)}, not a plugin package (${PLUGIN_TYPE})`);
}

type SignatureArtifact = PluginArtifact["signature_artifacts"][number];

async function readSignatures(
  store: ArtifactSource,
  digest: string,
): Promise<(SignatureArtifact & { content: unknown })[]> {
  const artifacts = await store.listSignatures(digest);
  if (artifacts.length > MAX_SIGNATURES)
    throw invalidArtifact(`it has ${artifacts.length} signatures; the limit is ${MAX_SIGNATURES}`);
  const signatures: (SignatureArtifact & { content: unknown })[] = [];
  for (const signature of artifacts) {
    const manifest = await store.readManifest(signature.digest);
    const { document } = manifest;
    if (document.kind !== "manifest" || document.subject?.digest !== digest) continue;
    const [blob] = document.layers;
    if (blob === undefined || document.artifact_type !== SIGNATURE_TYPE) continue;
    if (blob.size > MAX_SIGNATURE_BYTES) throw invalidArtifact("one of its signatures is too large");
    const bytes = await store.readBlob(blob, MAX_SIGNATURE_BYTES);
    signatures.push({ manifest, config: document.config, blob, content: parseSignature(bytes) });
  }
  return signatures;
}

/** Null for text that is not JSON; verifying it fails, which is reported together with the key. */
function parseSignature(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return null;
  }
}

function readFiles(listing: Buffer): TreeFile[] {
  try {
    return parseListing(listing.toString("utf8"));
  } catch {
    throw invalidArtifact("its config is not a listing of files");
  }
}

export function invalidArtifact(problem: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `The OCI artifact cannot be installed: ${problem}.`, {
    fix: "Publish it with `backplane plugin push FOLDER oci://HOST/NAME:TAG`.",
  });
}
