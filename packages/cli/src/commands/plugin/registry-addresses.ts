/**
 * The destinations of a command that uses a registry. The person who runs it names the registry, which may be anywhere.
 * An address that the registry names (a redirect, a token server, the target of an upload) must not be on this machine
 * or its network, unless the registry is there too.
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
  const own = new URL(`https://${registry === "docker.io" ? "registry-1.docker.io" : registry}/`);
  const own_host = hostOf(own);
  return async ({ host, port }) => {
    const addresses = await resolve(host);
    const named = host === own_host && (own.port === "" || Number(own.port) === port);
    if (named || !addresses.some(isPrivateAddress)) return addresses;
    if ((await resolve(own_host)).some(isPrivateAddress)) return addresses;
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
