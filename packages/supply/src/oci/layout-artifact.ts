/** A plugin package in an OCI image layout, whose folder is untrusted. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "@backplane/contract";
import type { TreeListing } from "../tree/tree-listing.ts";
import { type Descriptor, INDEX_TYPE, readManifestDocument } from "./descriptors.ts";
import { type ArtifactSource, invalidArtifact, SIGNATURE_TYPE } from "./plugin-artifact.ts";
import type { FetchedManifest } from "./registry-client.ts";
import { digestMismatch } from "./registry-errors.ts";
import { REGISTRY_LIMITS } from "./registry-limits.ts";

export const LAYOUT_FILE = "oci-layout";
export const LAYOUT_INDEX = "index.json";
const MAX_MARKER_BYTES = 1_024;

export function isLayout(names: readonly string[]): boolean {
  return names.includes(LAYOUT_FILE) && names.includes(LAYOUT_INDEX);
}

/** The listing contains the hash of each file, computed when the layout was unpacked or read. */
export async function openLayoutArtifact(dir: string, { files }: TreeListing): Promise<ArtifactSource> {
  const by_path = new Map(files.map((file) => [file.path, file]));
  const { manifest_bytes, descriptors } = REGISTRY_LIMITS;

  async function readLimited(path: string, max_bytes: number): Promise<Buffer> {
    const file = by_path.get(path);
    if (file === undefined) throw invalidArtifact(`the layout has no ${path}`);
    if (file.size > max_bytes)
      throw invalidArtifact(`${path} has ${file.size} bytes; the limit is ${max_bytes}`);
    return await readFile(join(dir, path));
  }

  /** Verifies the digest and size of the blob and returns its path. */
  function locate({ digest, size }: Pick<Descriptor, "digest" | "size">): string {
    const path = blobPath(digest);
    const file = by_path.get(path);
    if (file === undefined) throw digestMismatch(path, digest, "no such file");
    const actual = `sha256:${file.sha256}`;
    if (actual !== digest) throw digestMismatch(path, digest, actual);
    if (file.size !== size)
      throw digestMismatch(path, `${digest} of ${size} bytes`, `${actual} of ${file.size} bytes`);
    return path;
  }

  async function readManifest(descriptor: Pick<Descriptor, "digest" | "size">): Promise<FetchedManifest> {
    const path = locate(descriptor);
    const bytes = await readLimited(path, manifest_bytes);
    return { digest: descriptor.digest, bytes, document: parse(bytes, path, descriptors) };
  }

  requireVersion(await readLimited(LAYOUT_FILE, MAX_MARKER_BYTES));
  const index = parse(await readLimited(LAYOUT_INDEX, manifest_bytes), LAYOUT_INDEX, descriptors);
  if (index.kind !== "index") throw invalidArtifact(`${LAYOUT_INDEX} is not an index`);
  const [packages, referrers]: [Descriptor[], Descriptor[]] = [[], []];
  for (const descriptor of index.manifests) {
    if (descriptor.media_type === INDEX_TYPE) throw invalidArtifact("its index contains another index");
    const { document } = await readManifest(descriptor);
    const is_referrer = document.kind === "manifest" && document.subject !== null;
    (is_referrer ? referrers : packages).push({
      ...descriptor,
      artifact_type: document.kind === "manifest" ? document.artifact_type : descriptor.artifact_type,
    });
  }
  const sizeOf = (digest: string) => by_path.get(blobPath(digest))?.size ?? 0;
  return {
    async readRoot() {
      const [only, ...more] = packages;
      if (only === undefined) throw invalidArtifact("the layout is empty");
      if (more.length > 0) throw invalidArtifact(`the layout has ${packages.length} packages instead of one`);
      return await readManifest(only);
    },
    readManifest: (digest) => readManifest({ digest, size: sizeOf(digest) }),
    readBlob: async (blob, max_bytes) => await readLimited(locate(blob), max_bytes),
    fetchFile: async (blob) => join(dir, locate(blob)),
    listSignatures: async () => referrers.filter((referrer) => referrer.artifact_type === SIGNATURE_TYPE),
  };
}

export function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function parse(bytes: Buffer, path: string, descriptors: number): FetchedManifest["document"] {
  try {
    return readManifestDocument(bytes, descriptors);
  } catch (error) {
    throw invalidArtifact(`${path} cannot be used: ${(error as Error).message}`);
  }
}

function requireVersion(bytes: Buffer): void {
  try {
    const json: unknown = JSON.parse(bytes.toString("utf8"));
    if (isObject(json) && json.imageLayoutVersion === "1.0.0") return;
  } catch {
    // Reported below.
  }
  throw invalidArtifact(`${LAYOUT_FILE} does not specify the version 1.0.0`);
}
