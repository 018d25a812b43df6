/** Describes the permissions of a package in plain sentences, for the person who decides about it. */
import type { Permissions } from "@backplane/contract";

const FILES = {
  none: "It cannot read or write files.",
  scratch: "It can write temporary files, which are removed after each call.",
  assets_ro: "It can read its own package files.",
} as const satisfies Record<Permissions["filesystem"], string>;

export function describePermissions(permissions: Permissions): string[] {
  const { network, filesystem, allowed_domains, secret_slots, gateway_api_scopes } = permissions;
  return [
    describeNetwork(network, allowed_domains),
    FILES[filesystem],
    secret_slots.length === 0
      ? "It receives no secrets."
      : `It receives the secrets that you bind to ${secret_slots.join(", ")}.`,
    ...(gateway_api_scopes.length === 0
      ? []
      : [`It can use the gateway for ${gateway_api_scopes.join(", ")}, within the rights of its caller.`]),
  ];
}

function describeNetwork(network: Permissions["network"], domains: Permissions["allowed_domains"]): string {
  if (network === "none") return "It cannot use the network.";
  if (domains === undefined) return "It can connect to the domains that you allow.";
  return domains.length === 0 ? "It cannot use the network." : `It can connect to ${domains.join(", ")}.`;
}
