/** Reads the versions of a package in an OCI registry, without the files of the package. */
import type { OpenOptions, PackageImporter } from "@backplane/ports";
import { unwatchedOperation } from "@backplane/ports";
import { type ArtifactPlatform, readStatedIdentity } from "../oci/plugin-artifact.ts";
import { parseReference } from "../oci/reference.ts";
import type { RegistryClient } from "../oci/registry-client.ts";

export function createArtifactLookup(
  openRegistry: (findCredentials: OpenOptions["findRegistryCredentials"]) => RegistryClient,
  host: ArtifactPlatform,
): Pick<PackageImporter, "listTags" | "readArtifact"> {
  async function withClient<T>(
    findCredentials: OpenOptions["findRegistryCredentials"],
    work: (client: RegistryClient) => Promise<T>,
  ): Promise<T> {
    const client = openRegistry(findCredentials);
    try {
      return await work(client);
    } finally {
      client.close();
    }
  }

  return {
    async listTags(text, { operation = unwatchedOperation(), findRegistryCredentials } = {}) {
      const reference = parseReference(text);
      const { signal } = operation;
      return await withClient(findRegistryCredentials, (client) => client.listTags(reference, { signal }));
    },
    async readArtifact(text, { operation = unwatchedOperation(), findRegistryCredentials } = {}) {
      const reference = parseReference(text);
      const { signal } = operation;
      return await withClient(findRegistryCredentials, (client) => {
        const readManifest = (digest: string) =>
          client.fetchManifest({ ...reference, tag: null, digest }, { signal });
        const readRoot = () => client.fetchManifest(reference, { signal });
        return readStatedIdentity({ readRoot, readManifest }, host);
      });
    },
  };
}
