/**
 * Decides who may choose the names of tools (server.names). Policies match tools by name, so a name carries authority:
 * a renamed server escapes the denials of its old name, and a server that takes a name gets the trust that was given to
 * that name. Only an admin may give a server a name that its package does not have yet, or a name that a policy or
 * another package uses.
 */
import {
  BackplaneError,
  type Binding,
  boundServerName,
  definedFields,
  type EffectivePolicyDocument,
  isSelfDescribing,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { type BoundPackage, type Caller, hasRole, type KernelDeps, type Scope } from "@backplane/ports";
import { toolsOf } from "../exports/whole-package.ts";
import type { Policies } from "../policy/policies.ts";
import { compileToolPatterns } from "../policy/tool-pattern.ts";
import type { CheckedExport } from "./check-binding.ts";
import { type Claim, createClaim } from "./claims.ts";

type NameAuthorityDeps = Pick<KernelDeps, "store"> & { policies: Pick<Policies, "getEffective"> };

interface BoundVersion {
  binding: Binding;
  checked: CheckedExport;
}

export interface NameAuthority {
  /**
   * Throws if the names that the draft gives to tools are not free, or if the caller may not choose them. Resolves to
   * null if there is nothing to check: the draft gives no new names, or an admin names tools of a package.
   */
  require(
    caller: Caller,
    to: CheckedExport,
    draft: Binding,
    from: BoundVersion | null,
  ): Promise<Claim | null>;
}

/**
 * A user who removes a server that an admin has named could bind it again under a name that no policy mentions. The old
 * name, which policies may trust, would be free for another server.
 */
export function requireRemovable(caller: Caller, { binding, package: pack }: BoundPackage): void {
  if (!isServer(pack) || !isNamed(binding) || hasRole(caller.role, "admin")) return;
  const { binding_id } = binding;
  throw new BackplaneError(
    "policy.denied",
    `Only an owner or admin may remove ${binding_id}, because an admin named the server ${boundServerName(binding)}.`,
    { fix: `Ask an admin, or disable it: backplane binding disable ${binding_id}` },
  );
}

export function createNameAuthority({ store, policies }: NameAuthorityDeps): NameAuthority {
  async function requireServerName(caller: Caller, draft: Binding, before: Binding | null): Promise<void> {
    const name = boundServerName(draft);
    const is_admin = hasRole(caller.role, "admin");
    const servers = await listServers(draft.scope);
    const versions = servers.filter(
      ({ package_id, binding_id }) => package_id === draft.package_id && binding_id !== draft.binding_id,
    );
    // Another version, or a project's binding of a package of the org, may reuse the name that the package has.
    const reuses_name = versions.some(
      (other) => boundServerName(other) === name && isNamed(other) === isNamed(draft),
    );
    if (!is_admin && !(reuses_name && before === null)) {
      if (before !== null || isNamed(draft)) throw renameDeniedError(before);
      const [bound_version] = versions;
      if (bound_version !== undefined)
        throw adminRequiredError(
          `${bound_version.package_id} is bound as ${boundServerName(bound_version)} (${bound_version.binding_id})`,
          "Ask an admin to bind it.",
        );
    }
    const other_servers = servers.filter(({ package_id }) => package_id !== draft.package_id);
    const holder = other_servers.find(
      (other) =>
        equalsIgnoringCase(boundServerName(other), name) && (!is_admin || isInScope(other, draft.scope)),
    );
    if (holder !== undefined && isInScope(holder, draft.scope))
      throw nameInUseError(name, holder, findFreeName(name, servers));
    if (holder !== undefined)
      throw adminRequiredError(
        `the server ${holder.binding_id} (${holder.package_id}) of the organization is named ${name}`,
      );
    if (is_admin || reuses_name) return;
    const { document } = await policies.getEffective(draft.scope);
    const pattern = listTrustedPatterns(document).find((each) => reachesServer(each, name));
    if (pattern !== undefined) throw adminRequiredError(`the policy trusts tools named ${pattern}`);
  }

  async function requireToolIds(draft: Binding, ids: readonly string[]): Promise<void> {
    const { document } = await policies.getEffective(draft.scope);
    const patterns = listTrustedPatterns(document);
    for (const id of ids) {
      const pattern = patterns.find((each) => compileToolPatterns([each])(id));
      if (pattern !== undefined)
        throw adminRequiredError(`the policy trusts tools named ${pattern}, and one tool is named ${id}`);
      for (const bound of await store.bindings.findCandidates(draft.scope, id)) {
        const { package_id, binding_id } = bound.binding;
        if (package_id !== draft.package_id && (await hasTool(bound, id)))
          throw adminRequiredError(`${binding_id} (${package_id}) has a tool named ${id}`);
      }
    }
  }

  async function hasTool({ binding, package: pack }: BoundPackage, id: string): Promise<boolean> {
    if (binding.export_id === id) return true;
    if (!isSelfDescribing(pack.manifest.runtime.protocol)) return listToolIds(pack, binding).includes(id);
    const definitions = await store.definitions.get(binding.scope.org_id, binding.binding_id);
    return definitions?.exports.some((item) => item.id === id) === true;
  }

  /** Lists the servers that are visible in the scope, in any status. */
  async function listServers(scope: Scope): Promise<Binding[]> {
    const servers: Binding[] = [];
    for (let after: string | undefined; ; ) {
      const page = await store.bindings.list(scope, {}, { limit: 100, ...definedFields({ after }) });
      for (const binding of page.items) {
        if (binding.export_id !== WHOLE_PACKAGE) continue;
        const { package_id, package_version } = binding;
        const pack = await store.packages.find(scope.org_id, package_id, package_version);
        if (pack !== null && isServer(pack)) servers.push(binding);
      }
      if (page.next === null) return servers;
      after = page.next;
    }
  }

  const claim = (draft: Binding, check: () => Promise<void>) => createClaim(store, draft.scope.org_id, check);

  return {
    async require(caller, to, draft, from) {
      if (isServer(to.package)) {
        const before = from !== null && isServer(from.checked.package) ? from.binding : null;
        if (before !== null && hasSameName(before, draft)) return null;
        return await claim(draft, () => requireServerName(caller, draft, before));
      }
      const known_ids = from === null ? [] : listToolIds(from.checked.package, from.binding);
      const added = listToolIds(to.package, draft).filter((id) => !known_ids.includes(id));
      if (added.length === 0 || hasRole(caller.role, "admin")) return null;
      return await claim(draft, () => requireToolIds(draft, added));
    },
  };
}

/** Throws if two servers of different packages that are to be bound together have the same name. */
export function requireDistinctNames(bound: readonly { row: Binding; checked: CheckedExport }[]): void {
  const servers = bound.filter(({ checked }) => isServer(checked.package)).map(({ row }) => row);
  for (const [index, row] of servers.entries()) {
    const name = boundServerName(row);
    const holder = servers
      .slice(0, index)
      .find(
        (other) => other.package_id !== row.package_id && equalsIgnoringCase(boundServerName(other), name),
      );
    if (holder !== undefined) throw nameInUseError(name, holder, findFreeName(name, servers));
  }
}

export function isServer({ manifest }: Package): boolean {
  return manifest.runtime.protocol.startsWith("mcp.");
}

/** The tools of packages that describe themselves are known only when they run. */
function listToolIds(pack: Package, { export_id }: Binding): string[] {
  return toolsOf(pack)
    .map(({ id }) => id)
    .filter((id) => export_id === WHOLE_PACKAGE || export_id === id);
}

function isNamed({ config }: Binding): boolean {
  return typeof config.name === "string";
}

/** Setting the name that a server already has by default still renames its tools, which no longer repeat the name. */
function hasSameName(before: Binding, draft: Binding): boolean {
  return boundServerName(before) === boundServerName(draft) && isNamed(before) === isNamed(draft);
}

function isInScope({ scope }: Binding, { project_id }: Scope): boolean {
  return scope.project_id === project_id;
}

/** The catalog does not distinguish names by case either. */
function equalsIgnoringCase(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

/**
 * Patterns that give the matching tools more trust: a lower risk, or the permission of a role or channel. A pattern that
 * begins with `*` or `mcp_*` matches tools of any server and gives no server more trust than another.
 */
function listTrustedPatterns({ risks, roles, channels }: EffectivePolicyDocument): string[] {
  const lowered = Object.entries(risks).flatMap(([pattern, risk]) =>
    risk === "low" || risk === "medium" ? [pattern] : [],
  );
  const limits = [...Object.values(roles), ...Object.values(channels)];
  const allowed = limits.flatMap((limit) => limit?.allow?.tools ?? []);
  return [...lowered, ...allowed].filter((pattern) => !["", "mcp_"].includes(literalStart(pattern)));
}

function literalStart(pattern: string): string {
  const star = pattern.indexOf("*");
  return star < 0 ? pattern : pattern.slice(0, star);
}

/** Whether a tool of the server can match. The server `a` can have a tool `b_c`, which `mcp_a_b_*` matches. */
function reachesServer(pattern: string, name: string): boolean {
  const prefix = `mcp_${name}_`;
  const start = literalStart(pattern);
  return start.startsWith(prefix) || (start !== pattern && prefix.startsWith(start));
}

function findFreeName(name: string, servers: readonly Binding[]): string {
  const used_names = new Set(servers.map((server) => boundServerName(server).toLowerCase()));
  for (let n = 2; ; n++) {
    const free = `${name}-${n}`;
    if (!used_names.has(free.toLowerCase())) return free;
  }
}

function nameInUseError(
  name: string,
  { binding_id, package_id }: Binding,
  free_name: string,
): BackplaneError {
  const message = `The server name ${name} is used by ${binding_id} (${package_id}) in this scope.`;
  return new BackplaneError("binding.conflict", message, {
    details: { binding_id, free_name },
    fix: `Choose another name, such as --name ${free_name} (config.name).`,
  });
}

function renameDeniedError(before: Binding | null): BackplaneError {
  const remedy =
    before === null || !isNamed(before)
      ? "Leave out config.name"
      : `Leave config.name at ${boundServerName(before)}`;
  return new BackplaneError(
    "policy.denied",
    "Only an owner or admin may set or change the name of a server, because policies match tools by it.",
    { fix: `${remedy}, or ask an admin.` },
  );
}

function adminRequiredError(
  reason: string,
  fix = "Choose another name in the package, or ask an admin to bind it.",
): BackplaneError {
  return new BackplaneError("policy.denied", `Only an owner or admin may bind this: ${reason}.`, { fix });
}
