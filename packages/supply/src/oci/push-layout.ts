/** Uploads the package of a layout, with its signatures as referrers. */

import { hash } from "node:crypto";
import { codeOf, toBackplaneError } from "@backplane/contract";
import { INDEX_TYPE, MANIFEST_TYPE, readManifestDocument } from "./descriptors.ts";
import { readLayoutBlob } from "./pack-layout.ts";
import { type ArtifactSource, SIGNATURE_TYPE } from "./plugin-artifact.ts";
import type { OciReference } from "./reference.ts";
import {
  type FetchedManifest,
  type RegistryClient,
  referrersTag,
  type UploadCondition,
} from "./registry-client.ts";
import { unreachableRegistry } from "./registry-errors.ts";

const MAX_TAG_ATTEMPTS = 12;
const MIN_SETTLED_MS = 300;

export interface PushedPackage {
  manifest_digest: string;
  uploaded_bytes: number;
  signatures: number;
}

/** Without a tag in the reference, only the digest identifies the package. */
export async function pushLayout(
  client: RegistryClient,
  layout: string,
  store: ArtifactSource,
  reference: OciReference,
  new_signatures: readonly unknown[] = [],
): Promise<PushedPackage> {
  let uploaded_bytes = 0;
  const pushContent = async ({ document }: FetchedManifest): Promise<void> => {
    if (document.kind !== "manifest") return;
    for (const { digest, size } of [document.config, ...document.layers]) {
      const bytes = () => readLayoutBlob(layout, digest);
      if (await client.pushBlob(reference, { digest, size, bytes })) uploaded_bytes += size;
    }
  };
  const root = await store.readRoot();
  await pushContent(root);
  await client.pushManifest(reference, reference.tag ?? root.digest, MANIFEST_TYPE, root.bytes);
  const signatures = await store.listSignatures(root.digest);
  for (const { digest } of signatures) {
    const signature = await store.readManifest(digest);
    await pushContent(signature);
    const listed = await client.pushManifest(reference, digest, MANIFEST_TYPE, signature.bytes);
    if (!listed) await addToReferrersTag(client, reference, root.digest, signature);
  }
  for (const signature of new_signatures) await pushSignature(client, reference, root, signature);
  return {
    manifest_digest: root.digest,
    uploaded_bytes,
    signatures: signatures.length + new_signatures.length,
  };
}

async function pushSignature(
  client: RegistryClient,
  reference: OciReference,
  subject: FetchedManifest,
  signature: unknown,
): Promise<void> {
  const push = async (mediaType: string, content: Buffer) => {
    const digest = `sha256:${hash("sha256", content, "hex")}`;
    const size = content.length;
    await client.pushBlob(reference, { digest, size, bytes: () => yieldOnce(content) });
    return { mediaType, digest, size };
  };
  const bytes = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST_TYPE,
      artifactType: SIGNATURE_TYPE,
      config: await push("application/vnd.oci.empty.v1+json", Buffer.from("{}")),
      layers: [await push(SIGNATURE_TYPE, Buffer.from(`${JSON.stringify(signature, null, 2)}\n`))],
      subject: { mediaType: MANIFEST_TYPE, digest: subject.digest, size: subject.bytes.length },
    }),
  );
  const digest = `sha256:${hash("sha256", bytes, "hex")}`;
  const listed = await client.pushManifest(reference, digest, MANIFEST_TYPE, bytes);
  if (!listed)
    await addToReferrersTag(client, reference, subject.digest, {
      digest,
      bytes,
      document: readManifestDocument(bytes, 8),
    });
}

async function* yieldOnce(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}

/**
 * Lists the referrer for a registry without the referrers API, in an index under a tag. The upload is conditional on
 * the index still being the one that was read. Most registries ignore conditions, so another client that read the index
 * earlier can replace it with one that lacks this entry. The index is therefore read again after a delay several times
 * as long as this client's own read and upload took, and extended again until the entry is in it.
 */
async function addToReferrersTag(
  client: RegistryClient,
  reference: OciReference,
  subject: string,
  { digest, bytes, document }: FetchedManifest,
): Promise<void> {
  if (document.kind !== "manifest") return;
  const tag = referrersTag(subject);
  const new_entry = {
    mediaType: MANIFEST_TYPE,
    digest,
    size: bytes.length,
    artifactType: document.artifact_type ?? undefined,
  };
  let failure: unknown;
  let sent_condition: string | undefined;
  let refused_condition: string | undefined;
  for (let attempt = 1; attempt <= MAX_TAG_ATTEMPTS; attempt++) {
    const started_at = performance.now();
    try {
      const { entries, condition } = await fetchReferrers(client, { ...reference, tag, digest: null });
      if (entries.some((entry) => entry.digest === digest)) return;
      const manifests = [...entries, new_entry];
      const index = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: INDEX_TYPE, manifests }));
      sent_condition = JSON.stringify(condition);
      const options = sent_condition === refused_condition ? {} : { condition };
      await client.pushManifest(reference, tag, INDEX_TYPE, index, options);
    } catch (error) {
      // A condition failed, or another client is writing the tag, in which case docker-registry returns 500.
      if (codeOf(error) !== "registry.unreachable") throw error;
      // A condition that failed although the index is the same would fail again.
      if (isConditionFailed(error)) refused_condition = sent_condition;
      failure = error;
    }
    // Clients that collided once should not collide again, so each waits for a random time.
    const settled_ms = Math.max(MIN_SETTLED_MS, 3 * (performance.now() - started_at)) * (1 + Math.random());
    await new Promise((resolve) => setTimeout(resolve, settled_ms));
  }
  throw unreachableRegistry(
    reference.registry,
    `the entry of a signature was missing from the tag ${tag} after ${MAX_TAG_ATTEMPTS} uploads`,
    failure,
  );
}

function isConditionFailed(error: unknown): boolean {
  return toBackplaneError(error).details?.status === 412;
}

async function fetchReferrers(
  client: RegistryClient,
  reference: OciReference,
): Promise<{ entries: { digest: string }[]; condition?: UploadCondition }> {
  try {
    const { bytes, document, etag } = await client.fetchManifest(reference);
    const condition = etag === undefined ? {} : { condition: { "if-match": etag } };
    if (document.kind !== "index") return { entries: [], ...condition };
    const { manifests } = JSON.parse(bytes.toString("utf8")) as { manifests: { digest: string }[] };
    return { entries: manifests, ...condition };
  } catch (error) {
    if (codeOf(error) === "registry.not_found") return { entries: [], condition: { "if-none-match": "*" } };
    throw error;
  }
}
