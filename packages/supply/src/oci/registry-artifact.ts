/** A plugin package in a registry, read with a client into a folder for its files. */
import { join } from "node:path";
import type { Operation } from "@backplane/ports";
import { type ArtifactSource, SIGNATURE_TYPE } from "./plugin-artifact.ts";
import type { OciReference } from "./reference.ts";
import type { RegistryClient, TransferOptions } from "./registry-client.ts";

export function openRegistryArtifact(
  client: RegistryClient,
  reference: OciReference,
  folder: string,
  operation: Operation,
): ArtifactSource {
  const { signal } = operation;
  return {
    readRoot: () => client.fetchManifest(reference, { signal }),
    readManifest: (digest) => client.fetchManifest({ ...reference, tag: null, digest }, { signal }),
    readBlob: (blob, max_bytes) => client.readBlob(reference, blob, max_bytes, { signal }),
    async fetchFile(blob) {
      const path = join(folder, blob.digest.slice("sha256:".length));
      const message = `Downloading from ${reference.registry}`;
      const onReceived: TransferOptions["onReceived"] = (done) =>
        operation.report({ step: "download", message, done, total: blob.size, unit: "bytes" });
      await client.fetchBlob(reference, blob, path, { signal, onReceived });
      return path;
    },
    listSignatures: (digest) => client.listReferrers(reference, digest, SIGNATURE_TYPE, { signal }),
  };
}
