/** Downloads a package from a registry as an image layout, with its signatures. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Operation, unwatchedOperation } from "@backplane/ports";
import { type Descriptor, INDEX_TYPE, MANIFEST_TYPE } from "./descriptors.ts";
import { blobPath, LAYOUT_FILE, LAYOUT_INDEX } from "./layout-artifact.ts";
import { type ArtifactPlatform, type PluginArtifact, readPluginArtifact } from "./plugin-artifact.ts";
import type { OciReference } from "./reference.ts";
import { openRegistryArtifact } from "./registry-artifact.ts";
import type { FetchedManifest, RegistryClient } from "./registry-client.ts";

const MAX_BLOB_BYTES = 16 * 1024 * 1024;

/** Writes into the folder `out`, which must not exist. */
export async function pullLayout(
  client: RegistryClient,
  reference: OciReference,
  out: string,
  host: ArtifactPlatform,
  operation: Operation = unwatchedOperation(),
): Promise<PluginArtifact> {
  const blobs = join(out, "blobs/sha256");
  const store = openRegistryArtifact(client, reference, blobs, operation);
  const artifact = await readPluginArtifact(store, host);
  await mkdir(blobs, { recursive: true });
  const entries: object[] = [];
  const put = async (digest: string, bytes: Buffer) => await writeFile(join(out, blobPath(digest)), bytes);
  const putManifest = async ({ digest, bytes, document }: FetchedManifest) => {
    await put(digest, bytes);
    if (document.kind !== "manifest") return;
    const { artifact_type, config } = document;
    entries.push({
      mediaType: MANIFEST_TYPE,
      digest,
      size: bytes.length,
      ...(artifact_type === null ? {} : { artifactType: artifact_type }),
    });
    await putSmall(config);
  };
  const putSmall = async (blob: Descriptor) => await put(blob.digest, await store.read(blob, MAX_BLOB_BYTES));
  await putManifest(await store.manifest(artifact.manifest_digest));
  await store.file(artifact.layer);
  for (const { digest } of await store.signatures(artifact.manifest_digest)) {
    const signature = await store.manifest(digest);
    if (signature.document.kind !== "manifest") continue;
    await putManifest(signature);
    for (const blob of signature.document.layers) await putSmall(blob);
  }
  const index = { schemaVersion: 2, mediaType: INDEX_TYPE, manifests: entries };
  await writeFile(join(out, LAYOUT_INDEX), JSON.stringify(index));
  await writeFile(join(out, LAYOUT_FILE), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  return artifact;
}
