/**
 * Installs packages from any source and binds them. Everything is read, imported and checked first; then one
 * transaction stores all packages and bindings. A failure or a cancellation before the commit leaves no row and no
 * bytes.
 */

import {
  type AgentPluginInstalled,
  BackplaneError,
  type Binding,
  codeOf,
  definedFields,
  type Installation,
  type InstallationSettings,
  isSelfDescribing,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type Caller,
  HOST_ADMIN,
  type InstallationSource,
  type Kernel,
  type KernelDeps,
  type OpenedSource,
  type Operation,
  requireNotCancelled,
  requireOperator,
  requireScope,
  unwatchedOperation,
} from "@backplane/ports";
import type { ChangeEffects } from "../bindings/change-effects.ts";
import type { PackageFinder } from "../bindings/check-binding.ts";
import { writeClaimed } from "../bindings/claims.ts";
import { type BindingPlanner, type PlannedChange, toUpdate, isUpdate } from "../bindings/plan-change.ts";
import type { VersionProbe } from "../bindings/probe-versions.ts";
import type { PackageRows } from "../packages/package-rows.ts";
import { listVersionsInUse } from "../packages/versions-in-use.ts";
import { createCredentialsFinder } from "../secrets/registry-credentials.ts";
import type { SignaturePolicy } from "../signatures/signature-policy.ts";
import { type ImportedPart, importParts } from "./import-parts.ts";
import {
  bindsParts,
  listOtherVersions,
  type PlannedBinding,
  planBindings,
  requireNoSettings,
  requireNoUpgradeSettings,
} from "./plan-bindings.ts";
import { forbiddenSourceError, requireSourceAccess } from "./source-access.ts";

/** Other requests may change the same bindings; each attempt plans with what they stored. */
const MAX_ATTEMPTS = 20;

interface InstallationsDeps {
  deps: KernelDeps;
  rows: PackageRows;
  createPlanner: (packages: PackageFinder) => BindingPlanner;
  effects: ChangeEffects;
  versions: VersionProbe;
  signatures: SignaturePolicy;
}

/** Options for callers inside the kernel. */
interface InstallOptions {
  operation: Operation;
  /** Refuses sources of any other kind. */
  only?: "package" | "agent_plugin";
  /** Called before anything is stored. Throws to refuse the packages. */
  check?: (packages: readonly Package[]) => void;
  /** The source is a folder whose files change. */
  changing?: boolean;
  /**
   * Set for an installation from the marketplace. The signature rules for the marketplace apply instead of those for
   * OCI, and nothing is started, so bindings of other versions are left to an upgrade.
   */
  entry?: InstalledEntry;
}

/** An entry of the marketplace that is being installed. */
interface InstalledEntry {
  id: string;
  /** Returns the signatures that its card refers to. Throws if there are only other signatures. */
  selectSignatures(signatures: readonly unknown[]): readonly unknown[];
}

interface StoredInstallation {
  packages: Installation["packages"];
  bindings: PlannedBinding[];
  upgrade: Installation["upgrade"];
}

type Facade = Pick<Kernel, "installations"> & {
  packages: Pick<Kernel["packages"], "install" | "installAgentPlugin">;
  installChecked: InstallChecked;
  installLinked: InstallLinked;
};

/** Installs a folder whose files change, and binds everything in it. Existing bindings move to the new version. */
export type InstallLinked = (
  caller: Caller,
  path: string,
  check: (packages: readonly Package[]) => void,
  operation: Operation,
) => Promise<Installation>;

/** Installs like `installations.install`, but only packages. Nothing is stored if `check` throws. */
export type InstallChecked = (
  caller: Caller,
  source: InstallationSource,
  settings: InstallationSettings,
  check: (packages: readonly Package[]) => void,
  options?: Pick<InstallOptions, "operation" | "entry">,
) => Promise<Installation>;

export function createInstallations({
  deps,
  rows,
  createPlanner,
  effects,
  versions,
  signatures,
}: InstallationsDeps): Facade {
  const { store, importer } = deps;

  async function install(
    caller: Caller,
    source: InstallationSource,
    settings: InstallationSettings,
    { operation, only, check, changing, entry }: InstallOptions,
  ): Promise<{ installation: Installation; parts: ImportedPart[] }> {
    // A package that describes itself shows its start errors on the binding, where the author of a folder sees them.
    const mustStart = ({ checked }: PlannedChange) =>
      changing !== true || !isSelfDescribing(checked.package.manifest.runtime.protocol);
    requireNotCancelled(operation);
    const dry_run = settings.dry_run === true;
    if (dry_run) requireNoCode(settings);
    operation.report({ step: "read", message: "Reading the source" });
    const detached = settings.signature === undefined ? [] : [settings.signature];
    const select = (attached: readonly unknown[]) =>
      entry?.selectSignatures(attached) ?? [...attached, ...detached];
    const opened = await importer.open(withSecretSlots(source, settings), {
      only,
      changing,
      allow_scripts: settings.allow_scripts,
      allow_builds: settings.allow_builds,
      accept_source: settings.accept_source,
      findRegistryCredentials: createCredentialsFinder(deps, caller),
      acceptArtifact: async ({ digest, signatures: attached }) => {
        const origin = entry === undefined ? "oci" : "marketplace";
        await signatures.check(caller, origin, { digest }, select(attached));
      },
      operation,
    });
    let stored: StoredInstallation;
    let imported_parts: Awaited<ReturnType<typeof importParts>>;
    try {
      requirePackages(opened);
      imported_parts = await importParts(deps, rows, caller, opened, {
        strict: settings.strict === true,
        operation,
        marketplace: entry?.id,
        checkImported: (imported) =>
          signatures.checkImported(caller, imported, {
            signatures: select(imported.signatures ?? []),
            allow_downgrade: settings.allow_downgrade === true,
          }),
        // A part that comes from a registry is not part of the upload.
        requireAccess: (part) => requireSourceAccess(caller, part.registry ? "npm" : source.kind),
      });
      try {
        check?.(imported_parts.parts.map(({ row }) => row));
        stored = await storeParts(caller, opened, imported_parts.parts, settings, {
          moves_bindings: entry === undefined,
          async beforeCommit(changes) {
            if (entry === undefined) await versions.requireStart(changes.filter(mustStart), operation);
            // The last moment at which the installation can be cancelled.
            requireNotCancelled(operation);
            operation.report({ step: "store", message: "Storing packages and bindings" });
          },
        });
        if (!dry_run) imported_parts.held.release();
      } finally {
        await imported_parts.held.discard();
      }
    } finally {
      await opened.end();
    }
    const changes = dry_run ? [] : stored.bindings.flatMap(({ change }) => change ?? []);
    await effects.apply(caller, changes, operation);
    if (changes.length > 0)
      await effects.announce(
        caller,
        stored.bindings.map(({ result }) => result.binding),
      );
    const { kind, plugin, notes } = opened;
    const installation = {
      kind,
      ...(dry_run ? { dry_run } : {}),
      ...(plugin === undefined ? {} : { plugin }),
      packages: stored.packages,
      bindings: stored.bindings.map(({ result }) => result),
      ...definedFields({ upgrade: stored.upgrade }),
      left_out: imported_parts.left_out,
      notes: [...notes, ...imported_parts.notes],
    };
    return { installation, parts: imported_parts.parts };
  }

  async function storeParts(
    caller: Caller,
    opened: OpenedSource,
    parts: readonly ImportedPart[],
    settings: InstallationSettings,
    options: {
      /** False leaves a package that is bound in another version unbound. */
      moves_bindings: boolean;
      beforeCommit: (changes: readonly PlannedChange[]) => Promise<void>;
    },
  ): Promise<StoredInstallation> {
    const binds = bindsParts(opened, parts, settings);
    if (binds) requireScope(caller, "bindings:write");
    else requireNoSettings(settings);
    const planner = createPlanner(withDrafts(store.packages, parts));
    const packages = parts.map(({ row, highest }) => ({
      row,
      records: rows.buildRecords(caller, row),
      ...(highest === undefined ? {} : { highest }),
    }));
    for (let attempt = 1; ; attempt++) {
      const other_versions =
        binds && !options.moves_bindings ? await listOtherVersions(planner, caller, parts, settings) : [];
      const [bound] = other_versions;
      if (bound !== undefined) requireNoUpgradeSettings(bound, parts[0]!.row, settings);
      const bindings =
        binds && bound === undefined ? await planBindings(planner, caller, opened, parts, settings) : [];
      const upgrade = bound === undefined ? undefined : describeUpgrade(bound, parts[0]!.row, other_versions);
      if (settings.dry_run === true) return { packages: await describeDrafts(parts), bindings, upgrade };
      const changes = bindings.flatMap(({ change }) => change ?? []);
      // Another request has bound the package after its bindings were read.
      if (!options.moves_bindings && changes.some(isUpdate)) continue;
      await options.beforeCommit(changes);
      try {
        const moved = changes.filter(isUpdate).map(toUpdate);
        const removed = planner.planRemovals(caller, changes);
        const added = changes.filter((change) => !isUpdate(change));
        const created = added.map(({ row, records }) => ({ row, records }));
        const stored = await writeClaimed(
          changes.map(({ names_claim }) => names_claim),
          (expected_revision) =>
            store.installations.commit({ packages, moved, created, removed, expected_revision }),
        );
        return {
          packages: stored.map(({ row, created }) => ({ package: row, created })),
          bindings,
          upgrade,
        };
      } catch (error) {
        // A binding was created or changed after it was read.
        if (codeOf(error) !== "binding.conflict" || attempt >= MAX_ATTEMPTS) throw error;
      }
    }
  }

  /** The packages that a commit would store. */
  async function describeDrafts(parts: readonly ImportedPart[]): Promise<Installation["packages"]> {
    return await Promise.all(
      parts.map(async ({ row }) => {
        const existing = await store.packages.find(row.org_id, row.package_id, row.version);
        return { package: row, created: existing === null };
      }),
    );
  }

  function requireAccess(caller: Caller, source: InstallationSource): void {
    requireOperator(caller, "install packages");
    // An admin of an org has no right to the host's disk.
    if (source.kind === "folder" && caller.actor !== HOST_ADMIN) throw forbiddenSourceError(source.kind);
    requireSourceAccess(caller, source.kind);
  }

  async function installUnbound(
    caller: Caller,
    source: InstallationSource,
    only: "package" | "agent_plugin",
    operation: Operation = unwatchedOperation(),
    strict = false,
  ) {
    requireOperator(caller, "install packages");
    requireSourceAccess(caller, source.kind);
    return await install(caller, source, { bind: false, strict }, { only, operation });
  }

  return {
    installations: {
      async inspect(caller, source, operation = unwatchedOperation()) {
        requireAccess(caller, source);
        return await importer.inspect(source, {
          operation,
          findRegistryCredentials: createCredentialsFinder(deps, caller),
        });
      },
      async install(caller, source, settings, operation = unwatchedOperation()) {
        requireAccess(caller, source);
        return (await install(caller, source, settings, { operation })).installation;
      },
    },
    async installChecked(caller, source, settings, check, options = { operation: unwatchedOperation() }) {
      requireAccess(caller, source);
      const check_options = { only: "package", check, ...options } as const;
      return (await install(caller, source, settings, check_options)).installation;
    },
    async installLinked(caller, path, check, operation) {
      const source = { kind: "folder", path } as const;
      const options = { check, changing: true, operation };
      return (await install(caller, source, { bind: true }, options)).installation;
    },
    packages: {
      async install(caller, source, operation) {
        return (await installUnbound(caller, source, "package", operation)).installation.packages[0]!;
      },
      async installAgentPlugin(caller, source, { strict }, operation) {
        const unbound = await installUnbound(caller, source, "agent_plugin", operation, strict);
        const { installation, parts } = unbound;
        return toAgentPlugin(installation, parts);
      },
    },
  };
}

/** Install scripts and builds run while the source is imported. */
function requireNoCode({ allow_scripts, allow_builds }: InstallationSettings): void {
  const setting = Object.keys(definedFields({ allow_scripts, allow_builds }))[0];
  if (setting === undefined) return;
  const message = `${setting} runs code from the source, and a dry run must not run any code.`;
  throw new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: `body.${setting}`, message }] },
    fix: "Leave it out, or install the source without a dry run.",
  });
}

/** The upgrade that moves the bindings, which an installation from the marketplace does not do. */
function describeUpgrade(
  { scope }: Binding,
  { package_id, version }: Package,
  other_versions: readonly Binding[],
): Installation["upgrade"] {
  return {
    package_id,
    package_version: version,
    in_use: listVersionsInUse(other_versions, package_id),
    org_wide: scope.project_id === null,
  };
}

/** Also finds the packages that are about to be stored. */
function withDrafts(packages: PackageFinder, parts: readonly ImportedPart[]): PackageFinder {
  return {
    find(org_id, package_id, version) {
      const draft = parts.find(({ row }) => row.package_id === package_id && row.version === version);
      return draft?.row ?? packages.find(org_id, package_id, version);
    },
  };
}

/** Each secret that a request sets for a server becomes a slot of the server. */
function withSecretSlots(
  source: InstallationSource,
  { secrets = {} }: InstallationSettings,
): InstallationSource {
  if (source.kind === "archive" || source.kind === "folder" || source.kind === "oci") return source;
  return { ...source, secret_slots: [...new Set([...source.secret_slots, ...Object.keys(secrets)])] };
}

function requirePackages({ kind }: OpenedSource): void {
  if (kind !== "kernel_plugins") return;
  throw new BackplaneError(
    "package.source_invalid",
    "The source is a kernel plugin, which extends the gateway itself.",
    {
      fix: "Install it as a kernel plugin: backplane plugin install FOLDER or npm:NAME, or POST /api/plugins/install",
    },
  );
}

/** Adds to each package the request body that binds it. */
function toAgentPlugin(
  { plugin, packages, left_out, notes }: Installation,
  parts: readonly ImportedPart[],
): AgentPluginInstalled {
  const bodies = packages.map((installed, index) => {
    const { package_id, version } = installed.package;
    const { binding } = parts[index]!.part;
    return {
      ...installed,
      binding: { package_id, package_version: version, export_id: WHOLE_PACKAGE, ...binding },
    };
  });
  return { plugin: plugin!, packages: bodies, left_out, notes };
}
