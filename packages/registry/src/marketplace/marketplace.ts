/**
 * The marketplace (api.marketplace): curated entries, independent of what is installed. An installation stores the
 * package and its bindings and runs nothing. The operator has approved the card, so an artifact that differs from its
 * card or requests more is refused.
 */
import {
  BackplaneError,
  type Binding,
  canonicalJson,
  compareWithEntry,
  describePermissions,
  isObject,
  isSelfDescribing,
  type MarketplaceCard,
  type MarketplaceEntry,
  type Package,
  type Permissions,
} from "@backplane/contract";
import {
  type Caller,
  type Kernel,
  type KernelDeps,
  requireOperator,
  unwatchedOperation,
} from "@backplane/ports";
import { covers } from "../grant/domains.ts";
import { widerFilesystem } from "../grant/wider-parts.ts";
import type { InstallChecked } from "../installations/installations.ts";
import { readAllPages } from "../packages/read-all-pages.ts";
import { listVersionsInUse } from "../packages/versions-in-use.ts";
import { findKeyProblem } from "../signatures/verify-signature.ts";
import { type FoundEntry, readMarketplaceEntries } from "./entries.ts";

export function createMarketplace(deps: KernelDeps, installChecked: InstallChecked): Kernel["marketplace"] {
  const { store, clock, marketplace } = deps;

  async function find(id: string): Promise<FoundEntry> {
    const { entries } = await readMarketplaceEntries(deps);
    const match = entries.find(({ entry }) => entry.id === id);
    if (match === undefined) throw new BackplaneError("marketplace.not_found");
    return match;
  }

  /** `bindings` are those that the caller sees. */
  async function describeUse(
    caller: Caller,
    entry: MarketplaceEntry,
    bindings: readonly Binding[],
  ): Promise<Pick<MarketplaceCard, "in_use" | "upgrades">> {
    const { package_id, version } = entry.package;
    const in_use = listVersionsInUse(bindings, package_id);
    const upgrades: MarketplaceCard["upgrades"] = [];
    for (const from of in_use) {
      if (from === version || entry.status !== "available") continue;
      const before = await store.packages.find(caller.scope.org_id, package_id, from);
      if (before !== null) upgrades.push({ from, changes: compareWithEntry(before, entry) });
    }
    return { in_use, upgrades };
  }

  async function toCard(
    caller: Caller,
    { entry, catalog }: FoundEntry,
    bindings: readonly Binding[],
  ): Promise<MarketplaceCard> {
    const { problem: _problem, ...origin } = catalog.origin;
    const { signature } = entry;
    const key =
      signature === null ? null : await store.trusted_keys.findByKeyId(caller.scope.org_id, signature.key_id);
    return {
      ...entry,
      catalog: origin,
      installable: entry.status === "available",
      key_trusted:
        signature === null
          ? null
          : key !== null && findKeyProblem(key, entry.package.package_id, clock.now()) === null,
      abilities: describePermissions(entry.permissions),
      ...(await describeUse(caller, entry, bindings)),
    };
  }

  return {
    async list(caller, { search }) {
      const { entries, catalogs } = await readMarketplaceEntries(deps);
      const terms = (search ?? "")
        .toLowerCase()
        .split(/\s+/)
        .filter((term) => term !== "");
      const matching = entries.filter(({ entry }) => matchesTerms(entry, terms));
      const bindings = await readAllPages((page) => store.bindings.list(caller.scope, {}, page));
      const items = await Promise.all(matching.map((entry) => toCard(caller, entry, bindings)));
      return { items, catalogs: catalogs.map(({ origin }) => origin) };
    },
    async get(caller, id) {
      const found = await find(id);
      const { package_id } = found.entry.package;
      const bindings = await readAllPages((page) => store.bindings.list(caller.scope, { package_id }, page));
      return await toCard(caller, found, bindings);
    },
    async searchServers(caller, text) {
      // The search sends its text to the registry.
      requireOperator(caller, "search the public registry");
      return (await marketplace?.searchServers(text)) ?? { items: [], registry: null };
    },
    async install(caller, id, settings, operation = unwatchedOperation()) {
      const { entry } = await find(id);
      const { oci: approved, ...installation_settings } = settings;
      // The operator has approved a card, which a catalog can replace at any time.
      if (approved !== undefined && approved !== entry.oci)
        throw new BackplaneError(
          "marketplace.mismatch",
          `${entry.name} now has a different artifact: ${entry.oci ?? "none"}.`,
          { details: { id, expected: approved, actual: entry.oci } },
        );
      if (entry.status !== "available" || entry.oci === null)
        throw new BackplaneError(
          "marketplace.not_available",
          `${entry.name} cannot be installed. ${entry.reason ?? ""}`.trim(),
          {
            details: { id, status: entry.status },
          },
        );
      const { bind, scope } = entry.install_policy;
      const requested = { bind, ...installation_settings };
      const merged_settings = {
        ...(scope === "org" && requested.bind ? { org_wide: true } : {}),
        ...requested,
      };
      return await installChecked(
        caller,
        { kind: "oci", reference: entry.oci },
        merged_settings,
        (packages) => requireCard(entry, packages, merged_settings.bind),
        { operation, entry: { id, selectSignatures: (signatures) => selectSignatures(entry, signatures) } },
      );
    },
  };
}

/**
 * Any trusted key may sign a package, but only the one on the card has signed what the card shows. Throws if there are
 * signatures and none of them is by that key and for these dependencies.
 */
function selectSignatures(entry: MarketplaceEntry, signatures: readonly unknown[]): readonly unknown[] {
  const key_id = entry.signature?.key_id;
  const matching = signatures.filter((signature) => isObject(signature) && signature.key_id === key_id);
  if (signatures.length > 0 && matching.length === 0)
    throw mismatchError(
      entry,
      key_id === undefined
        ? "the artifact is signed, but the card names no key"
        : `the artifact is not signed with ${key_id}`,
    );
  const lock = canonicalJson(entry.dependency_lock ?? []);
  const with_same_lock = matching.filter(
    (signature) => canonicalJson(Object(signature).dependency_lock ?? []) === lock,
  );
  if (matching.length > 0 && with_same_lock.length === 0)
    throw mismatchError(entry, "the artifact has different dependencies");
  return with_same_lock;
}

function matchesTerms(
  { id, name, description, package: { package_id } }: MarketplaceEntry,
  terms: readonly string[],
): boolean {
  const text = `${id} ${name} ${description} ${package_id}`.toLowerCase();
  return terms.every((term) => text.includes(term));
}

/**
 * Throws unless the artifact is the package of the card and requests nothing that the card does not show. The tools of
 * a package that describes itself cannot be compared with the card, so such a package must not be bound here.
 */
function requireCard(entry: MarketplaceEntry, packages: readonly Package[], bind: boolean): void {
  const [pack, ...more] = packages;
  if (pack === undefined || more.length > 0)
    throw mismatchError(entry, "the artifact does not contain exactly one package");
  const { package_id, version } = entry.package;
  if (pack.package_id !== package_id || pack.version !== version)
    throw mismatchError(entry, `the artifact is ${pack.package_id} ${pack.version}`);
  const { runtime, exports } = pack.manifest;
  for (const { permissions } of [runtime, ...exports]) {
    const wider = permissions === undefined ? null : findWider(entry.permissions, permissions);
    if (wider !== null) throw mismatchError(entry, `the artifact also requests ${wider}`);
  }
  if (isSelfDescribing(runtime.protocol)) {
    if (bind) throw startsToBindError(entry);
    // Its manifest lists no exports, so there are none to compare with the card.
    return;
  }
  for (const { id, kind } of entry.package.exports)
    if (!exports.some((item) => item.id === id && item.kind === kind))
      throw mismatchError(entry, `the artifact has no ${kind} ${id}`);
  for (const { id, kind } of exports)
    if (!entry.package.exports.some((item) => item.id === id && item.kind === kind))
      throw mismatchError(entry, `the artifact also has the ${kind} ${id}`);
}

function findWider(card: Permissions, requested: Permissions): string | null {
  if (requested.network !== "none" && card.network === "none") return "the network";
  if (widerFilesystem(card.filesystem, requested.filesystem) !== card.filesystem)
    return `the filesystem (${requested.filesystem})`;
  if (card.allowed_domains !== undefined && requested.network !== "none") {
    if (requested.allowed_domains === undefined) return "all domains";
    const domain = requested.allowed_domains.find(
      (name) => !card.allowed_domains!.some((allowed) => covers(allowed, name)),
    );
    if (domain !== undefined) return domain;
  }
  const scope = requested.gateway_api_scopes.find((name) => !card.gateway_api_scopes.includes(name));
  if (scope !== undefined) return scope;
  const slot = requested.secret_slots.find((name) => !card.secret_slots.includes(name));
  return slot === undefined ? null : `the secret ${slot}`;
}

function startsToBindError({ id, name }: MarketplaceEntry): BackplaneError {
  return new BackplaneError(
    "marketplace.mismatch",
    `${name} lists its tools only when it runs, and an installation from the marketplace starts nothing.`,
    {
      details: { id },
      fix: `Install it without bindings and bind it afterwards: backplane plugin install marketplace:${id} --no-bind`,
    },
  );
}

function mismatchError({ id, name }: MarketplaceEntry, problem: string): BackplaneError {
  return new BackplaneError("marketplace.mismatch", `${name} does not match its card: ${problem}.`, {
    details: { id },
  });
}
