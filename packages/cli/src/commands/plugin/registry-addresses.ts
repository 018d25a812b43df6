/**
 * The destinations of a command that uses a registry. The user chooses the registry, which may be at any address. An
 * address that the registry refers to (a redirect, a token server, the target of an upload) must not be on this
 * machine or its network, unless the registry is there too.
 */
import { lookup } from "node:dns/promises";
import { BackplaneError } from "@backplane/contract";
import { isPrivateAddress } from "../../context/private-addresses.ts";

type Resolve = (host: string) => Promise<readonly string[]>;

/** `registry` is its host with an optional port. */
export function allowedAddresses(
  registry: string,
  resolve: Resolve = resolveAll,
): (destination: { host: string; port: number }) => Promise<readonly string[]> {
  const registry_url = new URL(`https://${registry === "docker.io" ? "registry-1.docker.io" : registry}/`);
  const registry_host = hostOf(registry_url);
  return async ({ host, port }) => {
    const addresses = await resolve(host);
    const is_registry =
      host === registry_host && (registry_url.port === "" || Number(registry_url.port) === port);
    if (is_registry || !addresses.some(isPrivateAddress)) return addresses;
    if ((await resolve(registry_host)).some(isPrivateAddress)) return addresses;
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
