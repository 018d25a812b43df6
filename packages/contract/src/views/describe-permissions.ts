/** Describes the permissions of a package in plain sentences, for the person who decides about it. */

import type { Permissions } from "../schema/index.ts";

export interface DescribedPermission {
  permission: "network" | "filesystem" | "secret_slots" | "gateway_api_scopes";
  sentence: string;
  /** False if the sentence says what the package cannot do. */
  granted: boolean;
  /** Why the package needs the permission, in the author's words. */
  reasons: readonly string[];
}

const FILES = {
  none: "It cannot read or write files.",
  scratch: "It can write temporary files, which are removed after each call.",
  assets_ro: "It can read its own package files.",
} as const satisfies Record<Permissions["filesystem"], string>;

export function describePermissions(permissions: Permissions): string[] {
  return permissionDetails(permissions).map(({ sentence }) => sentence);
}

/** `reasons` of a manifest is keyed by the permission, or by the slot, domain or scope that the reason is about. */
export function permissionDetails(permissions: Permissions): DescribedPermission[] {
  const { network, filesystem, allowed_domains: domains, secret_slots, gateway_api_scopes } = permissions;
  const { reasons = {} } = permissions;
  const reasonsFor = (...keys: readonly string[]) => [
    ...new Set(keys.map((key) => reasons[key]).filter((reason) => reason !== undefined)),
  ];
  const can_connect = network !== "none" && domains?.length !== 0;
  return [
    {
      permission: "network",
      sentence: describeNetwork(can_connect, domains),
      granted: can_connect,
      reasons: reasonsFor("network", "allowed_domains", ...(domains ?? [])),
    },
    {
      permission: "filesystem",
      sentence: FILES[filesystem],
      granted: filesystem !== "none",
      reasons: reasonsFor("filesystem"),
    },
    {
      permission: "secret_slots",
      sentence:
        secret_slots.length === 0
          ? "It receives no secrets."
          : `It receives the secrets that you bind to ${secret_slots.join(", ")}.`,
      granted: secret_slots.length > 0,
      reasons: reasonsFor("secret_slots", ...secret_slots),
    },
    ...(gateway_api_scopes.length === 0
      ? []
      : [
          {
            permission: "gateway_api_scopes" as const,
            sentence: `It can use the gateway for ${gateway_api_scopes.join(", ")}, within the rights of its caller.`,
            granted: true,
            reasons: reasonsFor("gateway_api_scopes", ...gateway_api_scopes),
          },
        ]),
  ];
}

function describeNetwork(can_connect: boolean, domains: Permissions["allowed_domains"]): string {
  if (!can_connect) return "It cannot use the network.";
  return domains === undefined
    ? "It can connect to the domains that you allow."
    : `It can connect to ${domains.join(", ")}.`;
}
