/**
 * Permissions that an upgrade withholds, because only the new version requests them. The right to upgrade a binding
 * does not include the right to grant them: only an owner or admin may, with any request.
 */
import { BackplaneError, type Binding, type BindingPolicy } from "@backplane/contract";
import { atLeast, type Caller, type KernelDeps } from "@backplane/ports";
import { standingLevel, toGrant } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { widerParts } from "../grant/wider-parts.ts";
import type { CheckedExport } from "./check-binding.ts";

type HeldPermission = NonNullable<Binding["previous"]>["permissions_held"][number];

const HELD: readonly HeldPermission[] = ["network", "filesystem", "gateway_api_scopes", "allowed_domains"];

interface BoundVersion {
  binding: Binding;
  found: CheckedExport;
}

export interface HeldPermissions {
  /**
   * Throws `policy.denied` if the caller grants a permission that is held. `set` is the policy that the caller sets.
   */
  require(caller: Caller, from: BoundVersion, to: BoundVersion, set: BindingPolicy | undefined): void;
  /** The permissions that were held before the move and that the new version does not get either. */
  carry(from: BoundVersion, to: BoundVersion): HeldPermission[];
}

export function createHeldPermissions({ host }: Pick<KernelDeps, "host">): HeldPermissions {
  const grantOf = ({ binding, found }: BoundVersion) =>
    toGrant(standingLevel({ binding, ...found }, effectiveClass(binding, found.export), binding.scope, host));

  /** The names of `HELD` in which the second grant allows more than the first. */
  const widerIn = (from: BoundVersion, to: BoundVersion): HeldPermission[] => {
    const wider = widerParts(grantOf(from), grantOf(to));
    return HELD.filter((name) => wider.includes(name));
  };

  return {
    require(caller, from, to, set) {
      if (atLeast(caller.role, "admin")) return;
      if (set?.permissions === undefined && set?.allowed_domains === undefined && !dropsPolicy(from, to))
        return;
      const moves = from.binding.package_version !== to.binding.package_version;
      // A share serves a version that its binding has not moved to yet.
      const all = moves || from.binding.share_of !== undefined;
      const held = all ? HELD : (from.binding.previous?.permissions_held ?? []);
      const wider = widerIn(from, to).filter((name) => held.includes(name));
      if (wider.length === 0) return;
      throw new BackplaneError(
        "policy.denied",
        `Only an owner or admin may give ${to.binding.package_id} ${to.binding.package_version} more than the version before: ${wider.join(", ")}.`,
        {
          details: { permissions: wider },
          fix: "Leave the policy of these permissions unchanged, or ask an admin.",
        },
      );
    },
    carry(from, to) {
      const held = from.binding.previous?.permissions_held ?? [];
      if (held.length === 0) return [];
      const { permissions: _permissions, allowed_domains: _domains, ...policy } = to.binding.policy;
      const wanted = { ...to, binding: { ...to.binding, policy } };
      return widerIn(to, wanted).filter((name) => held.includes(name));
    },
  };
}

/** A policy that leaves out a limit grants what the limit withheld. */
function dropsPolicy(from: BoundVersion, to: BoundVersion): boolean {
  const [before, after] = [from.binding.policy, to.binding.policy];
  return (
    (before.permissions !== undefined && after.permissions === undefined) ||
    (before.allowed_domains !== undefined && after.allowed_domains === undefined)
  );
}
