/** A plugin package in a registry, read with a client into a folder for its files. */
import { join } from "node:path";
import type { Operation } from "@backplane/ports";
import { type ArtifactStore, SIGNATURE_TYPE } from "./plugin-artifact.ts";
import type { OciReference } from "./reference.ts";
import type { RegistryClient, TransferOptions } from "./registry-client.ts";

export function openRegistryArtifact(
  client: RegistryClient,
  reference: OciReference,
  folder: string,
  operation: Operation,
): ArtifactStore {
  const { signal } = operation;
  return {
    root: () => client.fetchManifest(reference, { signal }),
    manifest: (digest) => client.fetchManifest({ ...reference, tag: null, digest }, { signal }),
    read: (blob, max_bytes) => client.readBlob(reference, blob, max_bytes, { signal }),
    async file(blob) {
      const path = join(folder, blob.digest.slice("sha256:".length));
      const message = `Downloading from ${reference.registry}`;
      const onReceived: TransferOptions["onReceived"] = (done) =>
        operation.report({ step: "download", message, done, total: blob.size, unit: "bytes" });
      await client.fetchBlob(reference, blob, path, { signal, onReceived });
      return path;
    },
    signatures: (digest) => client.listReferrers(reference, digest, SIGNATURE_TYPE, { signal }),
  };
}
