/** Downloads a package from a registry as an image layout, with its signatures. */
import { createReadStream } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Operation, unwatchedOperation } from "@backplane/ports";
import { unpackArchive } from "../archive/unpack-archive.ts";
import { type Descriptor, INDEX_TYPE, MANIFEST_TYPE } from "./descriptors.ts";
import { blobPath, LAYOUT_FILE, LAYOUT_INDEX } from "./layout-artifact.ts";
import {
  type ArtifactPlatform,
  MAX_LISTING_BYTES,
  MAX_SIGNATURE_BYTES,
  type PluginArtifact,
  readPluginArtifact,
} from "./plugin-artifact.ts";
import type { OciReference } from "./reference.ts";
import { openRegistryArtifact } from "./registry-artifact.ts";
import type { FetchedManifest, RegistryClient } from "./registry-client.ts";
import { requireSameFiles } from "./require-same-files.ts";

/** Creates the folder `out`, which must not exist. After a failure the folder is removed. */
export async function pullLayout(
  client: RegistryClient,
  reference: OciReference,
  out: string,
  host: ArtifactPlatform,
  operation: Operation = unwatchedOperation(),
): Promise<PluginArtifact> {
  await mkdir(out);
  try {
    return await writeLayout(client, reference, out, host, operation);
  } catch (error) {
    await rm(out, { recursive: true, force: true });
    throw error;
  }
}

async function writeLayout(
  client: RegistryClient,
  reference: OciReference,
  out: string,
  host: ArtifactPlatform,
  operation: Operation,
): Promise<PluginArtifact> {
  const blobs = join(out, "blobs/sha256");
  const store = openRegistryArtifact(client, reference, blobs, operation);
  const artifact = await readPluginArtifact(store, host);
  await mkdir(blobs, { recursive: true });
  const entries: object[] = [];
  const writeBlob = async (digest: string, bytes: Buffer) =>
    await writeFile(join(out, blobPath(digest)), bytes);
  const writeManifest = async ({ digest, bytes, document }: FetchedManifest) => {
    await writeBlob(digest, bytes);
    const artifact_type = document.kind === "manifest" ? document.artifact_type : null;
    entries.push({
      mediaType: MANIFEST_TYPE,
      digest,
      size: bytes.length,
      ...(artifact_type === null ? {} : { artifactType: artifact_type }),
    });
  };
  const copyBlob = async (blob: Descriptor, max_bytes: number) =>
    await writeBlob(blob.digest, await store.readBlob(blob, max_bytes));
  const root = await store.readManifest(artifact.manifest_digest);
  await writeManifest(root);
  if (root.document.kind === "manifest") await copyBlob(root.document.config, MAX_LISTING_BYTES);
  await requireListedFiles(artifact, await store.fetchFile(artifact.layer), join(out, "files"));
  // Exactly the signatures that were read, because a second list could differ and have any length.
  for (const { manifest, config, blob } of artifact.signature_artifacts) {
    await writeManifest(manifest);
    await copyBlob(config, MAX_SIGNATURE_BYTES);
    await copyBlob(blob, MAX_SIGNATURE_BYTES);
  }
  const index = { schemaVersion: 2, mediaType: INDEX_TYPE, manifests: entries };
  await writeFile(join(out, LAYOUT_INDEX), JSON.stringify(index));
  await writeFile(join(out, LAYOUT_FILE), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return artifact;
}

/** The layout is identified by the digest of its listing, so the layer must contain exactly the listed files. */
async function requireListedFiles(artifact: PluginArtifact, layer: string, temporary: string): Promise<void> {
  const listing = await unpackArchive(createReadStream(layer), temporary);
  requireSameFiles(artifact, listing);
  await rm(temporary, { recursive: true });
}
