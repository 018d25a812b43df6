/**
 * Credentials for OCI registries are secrets of the whole org whose name contains the host: `registry_ghcr.io`, or
 * `registry_localhost_5000` with a port. The name decides where they are sent, so nobody can redirect them
 * (docs/decisions/0019-credentials-and-destinations.md).
 */
import { BackplaneError } from "@backplane/contract";
import type { Caller, KernelDeps, RegistryCredentials } from "@backplane/ports";

const PREFIX = "registry_";
/** The host of Docker Hub, and the name under which people know it. */
const DOCKER_HOST = "registry-1.docker.io";
const DOCKER_NAME = "docker.io";

/** A binding must not use such a secret, because its plugin would receive it. */
export function isRegistrySecret(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** The returned function resolves to null if there are no credentials for the registry. */
export function createCredentialsFinder(
  { store, vault }: Pick<KernelDeps, "store" | "vault">,
  { scope: { org_id } }: Caller,
): (registry: string) => Promise<RegistryCredentials | null> {
  async function readCredentials(registry: string): Promise<RegistryCredentials | null> {
    const name = `${PREFIX}${registry.replace(":", "_")}`;
    const owned = await store.secrets.get(org_id, name);
    // A project must not decide which credentials the whole org uses.
    const sealed =
      owned === null || owned.project_id !== null ? null : await store.secrets.getSealed(org_id, name);
    if (sealed === null) return null;
    const value = vault.open(org_id, name, sealed.ciphertext).trim();
    const colon = value.indexOf(":");
    if (colon < 0)
      throw new BackplaneError("registry.denied", `The value of secret ${name} is not USER:PASSWORD.`, {
        fix: `Store it again with \`backplane secret set ${name}\`, with the value USER:PASSWORD.`,
      });
    return { username: value.slice(0, colon), password: value.slice(colon + 1) };
  }

  return async (registry) =>
    (await readCredentials(registry)) ??
    (registry === DOCKER_HOST ? await readCredentials(DOCKER_NAME) : null);
}
