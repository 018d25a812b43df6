/**
 * The destinations of a command that uses a registry. The user chooses the registry, which may be at any address. An
 * address that the registry refers to (a redirect, a token server, the target of an upload) must not be on this
 * machine or its network, unless every address of the registry is there too. The name of the registry is resolved once,
 * because whoever controls its DNS could otherwise return a private address for the check and a public one for the
 * connection.
 */
import { lookup } from "node:dns/promises";
import { BackplaneError } from "@backplane/contract";
import { isPrivateAddress } from "../../context/private-addresses.ts";

type Resolve = (host: string) => Promise<readonly string[]>;

/** `registry` is its host with an optional port. */
export function createAddressLookup(
  registry: string,
  resolve: Resolve = resolveAll,
): (destination: { host: string; port: number }) => Promise<readonly string[]> {
  const registry_url = new URL(`https://${registry === "docker.io" ? "registry-1.docker.io" : registry}/`);
  const registry_host = hostOf(registry_url);
  let resolved: Promise<readonly string[]> | undefined;
  const resolveRegistry = () => {
    resolved ??= resolve(registry_host).catch((error: unknown) => {
      // A failed lookup is not cached, because the client retries the request.
      resolved = undefined;
      throw error;
    });
    return resolved;
  };
  return async ({ host, port }) => {
    const registry_addresses = await resolveRegistry();
    const is_private = registry_addresses.every(isPrivateAddress);
    // The private addresses of a public registry are not used, because it could redirect to its own name.
    if (host === registry_host)
      return is_private ? registry_addresses : registry_addresses.filter((each) => !isPrivateAddress(each));
    const addresses = await resolve(host);
    if (is_private || !addresses.some(isPrivateAddress)) return addresses;
    throw new BackplaneError(
      "registry.invalid",
      `${registry} refers to ${host}:${port}, which is an address of this machine or its network.`,
      { details: { registry, host, port } },
    );
  };
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

async function resolveAll(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
