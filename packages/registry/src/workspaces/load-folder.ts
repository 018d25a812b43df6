/**
 * Turns the files of a trusted folder into a bound package (tools.hot). If the folder is already loaded, the new
 * package is described before anything changes: a tool whose new file does not load keeps its last working file, taken
 * from the package in use. The binding moves only after that. The package before the one in use is kept, because
 * running calls still read its files.
 */

import {
  BackplaneError,
  type Definitions,
  type Package,
  type TrustedFolder,
  toBackplaneError,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  type Description,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireNotCancelled,
  type WorkspaceSource,
} from "@backplane/ports";
import type { DefinitionsService } from "../definitions/definitions.ts";
import type { InstallLinked } from "../installations/installations.ts";
import type { PackageRows } from "../packages/package-rows.ts";

export interface LoadDeps {
  deps: KernelDeps;
  rows: PackageRows;
  bindings: Pick<Kernel["bindings"], "create" | "patch" | "remove">;
  definitions: Pick<DefinitionsService, "preview" | "withDescription">;
  installLinked: InstallLinked;
}

export type LoadedFolder = Pick<
  TrustedFolder,
  "package_id" | "package_version" | "binding_id" | "errors" | "snapshots" | "bindings"
>;

export interface PackageInUse extends BoundPackage {
  definitions: Definitions | null;
  /** The ids of the packages that are kept for the folder, oldest first. */
  snapshots: readonly string[];
}

/** The package in use and the one before it. */
const MAX_SNAPSHOTS = 2;

export async function loadFolder(
  load_deps: LoadDeps,
  caller: Caller,
  source: WorkspaceSource,
  in_use: PackageInUse | null,
  operation: Operation,
): Promise<LoadedFolder> {
  return in_use === null
    ? await bindFirst(load_deps, caller, source, operation)
    : await bindNext(load_deps, caller, source, in_use, operation);
}

/**
 * A plugin that is not made of tool files is installed again in one transaction, which moves its bindings. If that
 * fails, the version in use stays.
 */
export async function installFolder(
  load_deps: LoadDeps,
  caller: Caller,
  { path, snapshots: previous_snapshots }: Pick<TrustedFolder, "path" | "snapshots">,
  digest: string,
  operation: Operation,
): Promise<LoadedFolder> {
  // Only the reviewed content may be loaded. The packages of Agent Plugins have digests of their own.
  const requireReviewed = (packages: readonly Package[]) => {
    if (packages.length === 1 && packages[0]!.digest !== digest)
      throw new BackplaneError("workspace.changed");
  };
  const installation = await load_deps.installLinked(caller, path, requireReviewed, operation);
  const current = installation.packages.map(({ package: row }) => row.id);
  const { package_id, version: package_version } = installation.packages[0]!.package;
  const bindings = installation.bindings.map(({ binding }) => binding.binding_id);
  const snapshots = [...previous_snapshots.filter((id) => !current.includes(id)), ...current];
  while (snapshots.length > MAX_SNAPSHOTS * current.length)
    await removeSnapshot(load_deps, caller, snapshots.shift()!);
  const errors: Record<string, string> = {};
  for (const id of bindings) {
    const described = await load_deps.deps.store.definitions.get(caller.scope.org_id, id);
    if (described === null) continue;
    Object.assign(errors, errorsOf(described));
    if (described.error !== null) errors[id] = described.error.message;
  }
  for (const { name, reason } of installation.left_out) errors[name] = reason;
  return { package_id, package_version, binding_id: bindings[0] ?? "", errors, snapshots, bindings };
}

async function bindFirst(
  { deps, rows, bindings }: LoadDeps,
  caller: Caller,
  source: WorkspaceSource,
  operation: Operation,
): Promise<LoadedFolder> {
  operation.report({ step: "unpack", message: "Copying the tool files" });
  const imported = await deps.importer.import(source);
  const draft = rows.draft(caller, imported);
  if (operation.signal.aborted) {
    await rows.discard(draft.digest);
    requireNotCancelled(operation);
  }
  operation.report({ step: "store", message: "Binding the tools" });
  const { package: row } = await rows.add(caller, draft);
  const { package_id, version: package_version } = row;
  const body = { package_id, package_version, export_id: WHOLE_PACKAGE };
  const binding = await bindings.create(caller, body, operation);
  const described = await deps.store.definitions.get(binding.scope.org_id, binding.binding_id);
  const errors = described === null ? {} : errorsOf(described);
  if (described?.error != null) errors.tools = described.error.message;
  return { package_id, package_version, binding_id: binding.binding_id, errors, snapshots: [row.id] };
}

async function bindNext(
  load_deps: LoadDeps,
  caller: Caller,
  source: WorkspaceSource,
  in_use: PackageInUse,
  operation: Operation,
): Promise<LoadedFolder> {
  const { rows, bindings, definitions } = load_deps;
  const { binding_id } = in_use.binding;
  operation.report({ step: "check", message: "Loading the tool files" });
  let next = await importCandidate(load_deps, caller, source, in_use);
  const errors = errorsOf(next.description);
  const loaded = listLoadedFiles(in_use.definitions);
  const failed_updates = Object.keys(errors).filter((file) => loaded.has(file));
  if (failed_updates.length > 0) {
    await rows.discard(next.row.digest);
    const keep = { digest: in_use.package.digest, files: failed_updates };
    next = await importCandidate(load_deps, caller, { ...source, keep }, in_use);
  }
  const { row, description } = next;
  if (operation.signal.aborted) {
    await rows.discard(row.digest);
    requireNotCancelled(operation);
  }
  operation.report({ step: "store", message: "Binding the tools" });
  const { package_id, version: package_version } = row;
  const snapshots = [...in_use.snapshots];
  if (row.digest !== in_use.package.digest) {
    const { package: added } = await rows.add(caller, row);
    await definitions.withDescription(binding_id, row.digest, description, () =>
      bindings.patch(caller, binding_id, { package_version }, undefined, operation),
    );
    if (!snapshots.includes(added.id)) snapshots.push(added.id);
    while (snapshots.length > MAX_SNAPSHOTS) await removeSnapshot(load_deps, caller, snapshots.shift()!);
  } else await rows.discard(row.digest);
  return { package_id, package_version, binding_id, errors, snapshots };
}

async function importCandidate(
  { deps, rows, definitions }: LoadDeps,
  caller: Caller,
  source: WorkspaceSource,
  { binding }: PackageInUse,
): Promise<{ row: Package; description: Description }> {
  const imported = await deps.importer.import(source);
  const row = rows.draft(caller, imported);
  try {
    return { row, description: await definitions.preview({ binding, package: row }) };
  } catch (error) {
    await rows.discard(row.digest);
    throw error;
  }
}

/** Returns load errors by file. */
function errorsOf({ exports, info }: Pick<Description, "exports" | "info">): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const { id, tool } of exports) {
    if (tool.load_error !== undefined) errors[filesOf(info)[id] ?? id] = tool.load_error;
  }
  return errors;
}

/** Returns the files of tools that load in the version in use. */
function listLoadedFiles(definitions: Definitions | null): Set<string> {
  const exports = definitions?.exports ?? [];
  const files = filesOf(definitions?.info ?? {});
  const loadable = exports.filter(({ tool }) => tool.load_error === undefined);
  return new Set(loadable.flatMap(({ id }) => files[id] ?? []));
}

function filesOf(info: Description["info"]): Record<string, string> {
  return (info.files ?? {}) as Record<string, string>;
}

/** A snapshot that cannot be removed does no harm; a package that somebody else has bound stays. */
async function removeSnapshot({ deps, rows }: LoadDeps, caller: Caller, id: string): Promise<void> {
  try {
    const row = await deps.store.packages.get(caller.scope.org_id, id);
    if (row !== null) await rows.remove(caller, row);
  } catch (error) {
    deps.log.warn(
      { err: toBackplaneError(error), package: id },
      "an old snapshot of a trusted folder could not be removed",
    );
  }
}
