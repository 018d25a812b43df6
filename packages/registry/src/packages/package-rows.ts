/** The rows of installed packages and the bytes behind them. */

import { BackplaneError, type JsonObject, type Package, type Provenance } from "@backplane/contract";
import {
  buildAudit,
  type Caller,
  type ChangeRecords,
  type ImportedPackage,
  type KernelDeps,
} from "@backplane/ports";
import { createVisibilityFilter, hideInvisibleBindings } from "../access/visible-bindings.ts";

/** Used for API requests and for watched folders, which change without a request. */
export interface PackageRows {
  /** Returns the row that the imported bytes would have. */
  draft(caller: Caller, imported: ImportedPackage): Package;
  /** Returns the event and the audit entry of the installation. */
  buildRecords(caller: Caller, row: Package): ChangeRecords;
  /** Stores the row and ends the import. Bytes that do not become a row are removed. */
  add(caller: Caller, row: Package): Promise<{ package: Package; created: boolean }>;
  remove(caller: Caller, row: Package): Promise<void>;
  /** Ends an import that does not become a row. Bytes that another package uses stay. */
  discard(digest: string): Promise<void>;
}

/** Origins whose source identifies the downloaded package. */
const REGISTRIES: readonly Package["origin"][] = ["npm", "pypi", "image"];

export function createPackageRows(deps: KernelDeps): PackageRows {
  const { store } = deps;

  const draft = (caller: Caller, { manifest, ...imported }: ImportedPackage): Package => ({
    id: deps.ids.next("package"),
    org_id: caller.scope.org_id,
    package_id: manifest.package_id,
    version: manifest.version,
    digest: imported.digest,
    size_bytes: imported.size_bytes,
    origin: imported.origin,
    ...(imported.oci === undefined ? {} : { oci: imported.oci }),
    ...(imported.marketplace === undefined ? {} : { marketplace: imported.marketplace }),
    ...(imported.provenance === undefined ? {} : { provenance: imported.provenance }),
    manifest,
    schemas: imported.schemas as Record<string, never>,
    first_installed_at: imported.first_installed_at,
    installed_at: new Date(deps.clock.now()).toISOString(),
    installed_by: caller.actor,
  });

  function buildRecords(caller: Caller, row: Package): ChangeRecords {
    const identity = { package_id: row.package_id, version: row.version, digest: row.digest };
    return {
      events: [
        {
          id: deps.ids.next("event"),
          type: "package.installed",
          // A package belongs to the org, but the event goes to the project that installed it.
          scope: caller.scope,
          occurred_at: deps.clock.now(),
          subject: { kind: "package", id: row.id },
          summary: identity,
        },
      ],
      audit: buildAudit(deps, caller, "package.install", row.id, {
        ...identity,
        origin: row.origin,
        // Identifies the package in the registry, and the install scripts that ran.
        ...(REGISTRIES.includes(row.origin) ? { source: row.manifest.source } : {}),
        ...(row.oci === undefined ? {} : { oci: row.oci }),
        ...(row.marketplace === undefined ? {} : { marketplace: row.marketplace }),
        ...(row.provenance === undefined ? {} : { provenance: toAuditedProvenance(row.provenance) }),
        ...(row.signature?.state === "verified" ? { signed_by: row.signature.key_id } : {}),
      }),
    };
  }

  async function add(caller: Caller, row: Package) {
    try {
      const inserted = await store.packages.insert(row, buildRecords(caller, row));
      deps.importer.release(row.digest);
      return { package: inserted.row, created: inserted.created };
    } catch (error) {
      await discard(row.digest);
      throw error;
    }
  }

  async function remove(caller: Caller, row: Package): Promise<void> {
    const identity = { package_id: row.package_id, version: row.version, digest: row.digest };
    const audit = buildAudit(deps, caller, "package.remove", row.id, identity);
    let removed: boolean;
    try {
      removed = await store.packages.remove(row.org_id, row.id, { audit });
    } catch (error) {
      throw await hideInvisibleBindings(
        error,
        "package.bound",
        "bindings",
        createVisibilityFilter(deps, caller),
      );
    }
    if (!removed) throw new BackplaneError("package.not_found");
    await removeUnused(row.digest);
  }

  async function discard(digest: string): Promise<void> {
    deps.importer.release(digest);
    await removeUnused(digest);
  }

  /** Unused bytes do no harm, so a failure does not fail the request. */
  async function removeUnused(digest: string): Promise<void> {
    try {
      await deps.importer.discard(digest, () => store.packages.isDigestInUse(digest));
    } catch (error) {
      deps.log.warn({ err: error, digest }, "unused package bytes could not be removed");
    }
  }

  return { draft, buildRecords, add, remove, discard };
}

function toAuditedProvenance({ state, build, trust_root }: Provenance): JsonObject {
  return build === null
    ? { state }
    : { state, repository: build.repository, commit: build.commit, trust_root: trust_root?.digest ?? null };
}
