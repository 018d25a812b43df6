/**
 * Permissions that an upgrade withholds, because only the new version requests them. The right to upgrade a binding
 * does not include the right to grant these permissions: only an owner or admin may grant them, in whichever request.
 */
import { BackplaneError, type Binding, type BindingPolicy, type Package } from "@backplane/contract";
import { type Caller, hasRole, type KernelDeps } from "@backplane/ports";
import { toolsOf } from "../exports/whole-package.ts";
import { levelBeforeCall, toGrant } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { listWiderParts } from "../grant/wider-parts.ts";
import type { CheckedExport } from "./check-binding.ts";
import { withholdPermissions } from "./move-binding.ts";

type HeldPermission = NonNullable<Binding["previous"]>["permissions_held"][number];

const HELD_PERMISSIONS: readonly HeldPermission[] = [
  "network",
  "filesystem",
  "gateway_api_scopes",
  "allowed_domains",
];

interface BoundVersion {
  binding: Binding;
  checked: CheckedExport;
}

export interface HeldPermissions {
  /**
   * Throws `policy.denied` if the caller would grant a held permission without the right to do so. `set` is the policy
   * that the caller sets. `other_versions` are the other bound versions of the export.
   */
  require(
    caller: Caller,
    from: BoundVersion,
    to: BoundVersion,
    set: BindingPolicy | undefined,
    other_versions?: readonly CheckedExport[],
  ): void;
  /**
   * Returns the permissions that were held or limited before the move and that the new version does not get either.
   * After a rollback, every permission that the restored policy limits counts as limited, because no record shows why
   * the policy limits it.
   */
  carryOver(
    from: BoundVersion,
    to: BoundVersion,
    is_rollback: boolean,
  ): { held: HeldPermission[]; limited: HeldPermission[] };
}

export function createHeldPermissions({ host }: Pick<KernelDeps, "host">): HeldPermissions {
  const computeGrant = ({ binding, checked }: BoundVersion) =>
    toGrant(
      levelBeforeCall({ binding, ...checked }, effectiveClass(binding, checked.export), binding.scope, host),
    );

  /** The names of `HELD_PERMISSIONS` in which the second grant allows more than the first. */
  const findWiderPermissions = (from: BoundVersion, to: BoundVersion): HeldPermission[] => {
    const wider = listWiderParts(computeGrant(from), computeGrant(to));
    return HELD_PERMISSIONS.filter((name) => wider.includes(name));
  };

  /** The permissions that the version requests but that its policy limits. */
  const findLimited = (bound: BoundVersion): HeldPermission[] => {
    const { permissions: _permissions, allowed_domains: _domains, ...policy } = bound.binding.policy;
    return findWiderPermissions(bound, { ...bound, binding: { ...bound.binding, policy } });
  };

  return {
    require(caller, from, to, set, other_versions = []) {
      if (hasRole(caller.role, "admin")) return;
      const is_move = from.binding.package_version !== to.binding.package_version;
      const sets_permissions = set?.permissions !== undefined || set?.allowed_domains !== undefined;
      if (!is_move && !sets_permissions && !dropsLimit(from, to)) return;
      // A share runs a version that its binding has not moved to yet.
      const holds_all = is_move || from.binding.share_of !== undefined;
      const held: readonly string[] = holds_all
        ? HELD_PERMISSIONS
        : [...listHeldPermissions(from.binding), ...findNewPermissions(other_versions, to.checked)];
      const wider = findWiderPermissions(from, to).filter((name) => held.includes(name));
      if (wider.length === 0) return;
      throw new BackplaneError(
        "policy.denied",
        `Only an owner or admin may give ${to.binding.package_id} ${to.binding.package_version} more than the previous version: ${wider.join(", ")}.`,
        {
          details: { permissions: wider },
          fix: "Leave the policy of these permissions unchanged, or ask an admin.",
        },
      );
    },
    carryOver(from, to, is_rollback) {
      if (is_rollback) return { held: [], limited: findLimited(to) };
      const { permissions_held: held = [], permissions_limited: limited = [] } = from.binding.previous ?? {};
      if (held.length + limited.length === 0) return { held: [], limited: [] };
      const still_limited = findLimited(to);
      return {
        held: still_limited.filter((name) => held.includes(name)),
        limited: still_limited.filter((name) => limited.includes(name)),
      };
    },
  };
}

/**
 * Permissions that a tool in both versions requests for the first time, even if another tool of the package had them
 * before. A binding of the whole package has one policy, so they cannot be withheld from one tool.
 */
export function findNewToolPermissions(from: Package, to: Package): HeldPermission[] {
  const old_tools = new Map(toolsOf(from).map(({ id, permissions }) => [id, permissions]));
  return toolsOf(to).flatMap(({ id, permissions }) => {
    const old_permissions = old_tools.get(id);
    return old_permissions === undefined
      ? []
      : withholdPermissions({}, old_permissions, permissions).withheld;
  });
}

/**
 * Throws `package.conflict` if a version has other content than its held upgrade. An admin approves the permissions
 * that were shown, and other content under the same version may request more.
 */
export function requireHeldContent(moves: readonly { before: Binding; checked: CheckedExport }[]): void {
  for (const { before, checked } of moves) {
    const { version, digest } = checked.package;
    const { package_id, held_upgrade } = before;
    if (held_upgrade?.package_version !== version || held_upgrade.digest === digest) continue;
    throw new BackplaneError(
      "package.conflict",
      `${package_id} ${version} was installed again with different content while its upgrade was awaiting approval.`,
      {
        details: { package_id, version, expected: held_upgrade.digest ?? null, actual: digest },
        fix: `Request the upgrade again, which shows the permissions of the new content: backplane plugin upgrade ${package_id}@${version}`,
      },
    );
  }
}

function listHeldPermissions({ previous }: Binding): HeldPermission[] {
  return [...(previous?.permissions_held ?? []), ...(previous?.permissions_limited ?? [])];
}

/** A second binding of an export starts with the permissions of the version bound first; all others are held. */
function findNewPermissions(
  other_versions: readonly CheckedExport[],
  { export: item }: CheckedExport,
): string[] {
  return other_versions.flatMap((version) => {
    const { withheld }: { withheld: string[] } = withholdPermissions(
      {},
      version.export.permissions,
      item.permissions,
    );
    // A version that requests the network for the first time gets its domains with it, so both are held.
    return withheld.includes("network") ? [...withheld, "allowed_domains"] : withheld;
  });
}

/** A policy that leaves out a limit grants what the limit withheld. */
function dropsLimit(from: BoundVersion, to: BoundVersion): boolean {
  const [before, after] = [from.binding.policy, to.binding.policy];
  return (
    (before.permissions !== undefined && after.permissions === undefined) ||
    (before.allowed_domains !== undefined && after.allowed_domains === undefined)
  );
}
