/**
 * From the files of a trusted folder to a bound package (tools.hot). A folder that is loaded already is asked before
 * anything changes: a tool whose new file does not load keeps its last good one, taken from the package in use, and
 * only then the binding moves, with the answer at hand. The package before the last one goes: a call that runs on the
 * last one still finds its files.
 */

import {
  type Definitions,
  type Package,
  type TrustedFolder,
  toBackplaneError,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type {
  BoundPackage,
  Caller,
  Description,
  Kernel,
  KernelDeps,
  WorkspaceSource,
} from "@backplane/ports";
import type { DefinitionsService } from "../definitions/definitions.ts";
import type { PackageRows } from "../packages/package-rows.ts";

export interface LoadParts {
  deps: KernelDeps;
  rows: PackageRows;
  bindings: Pick<Kernel["bindings"], "create" | "patch" | "remove">;
  definitions: Pick<DefinitionsService, "preview" | "withDescription">;
}

export type Loaded = Pick<
  TrustedFolder,
  "package_id" | "package_version" | "binding_id" | "errors" | "snapshots"
>;

/** What is in use so far. */
export interface InUse extends BoundPackage {
  definitions: Definitions | null;
  snapshots: readonly string[];
}

/** The package in use and the one before it. */
const KEPT = 2;

export async function loadFolder(
  parts: LoadParts,
  caller: Caller,
  source: WorkspaceSource,
  used: InUse | null,
): Promise<Loaded> {
  return used === null ? await bindFirst(parts, caller, source) : await bindNext(parts, caller, source, used);
}

async function bindFirst(
  { deps, rows, bindings }: LoadParts,
  caller: Caller,
  source: WorkspaceSource,
): Promise<Loaded> {
  const imported = await deps.importer.import(source);
  const { package: row } = await rows.add(caller, rows.draft(caller, imported));
  const { package_id, version: package_version } = row;
  const binding = await bindings.create(caller, { package_id, package_version, export_id: WHOLE_PACKAGE });
  const described = await deps.store.definitions.get(binding.scope.org_id, binding.binding_id);
  const errors = described === null ? {} : errorsOf(described);
  if (described?.error != null) errors.tools = described.error.message;
  return { package_id, package_version, binding_id: binding.binding_id, errors, snapshots: [row.id] };
}

async function bindNext(
  parts: LoadParts,
  caller: Caller,
  source: WorkspaceSource,
  used: InUse,
): Promise<Loaded> {
  const { rows, bindings, definitions } = parts;
  const { binding_id } = used.binding;
  let next = await candidate(parts, caller, source, used);
  const errors = errorsOf(next.description);
  const good = goodFiles(used.definitions);
  const kept = Object.keys(errors).filter((file) => good.has(file));
  if (kept.length > 0) {
    await rows.discard(next.row.digest);
    const keep = { digest: used.package.digest, files: kept };
    next = await candidate(parts, caller, { ...source, keep }, used);
  }
  const { row, description } = next;
  const { package_id, version: package_version } = row;
  const snapshots = [...used.snapshots];
  if (row.digest !== used.package.digest) {
    const { package: added } = await rows.add(caller, row);
    await definitions.withDescription(binding_id, row.digest, description, () =>
      bindings.patch(caller, binding_id, { package_version }, undefined),
    );
    if (!snapshots.includes(added.id)) snapshots.push(added.id);
    while (snapshots.length > KEPT) await sweep(parts, caller, snapshots.shift()!);
  } else await rows.discard(row.digest);
  return { package_id, package_version, binding_id, errors, snapshots };
}

async function candidate(
  { deps, rows, definitions }: LoadParts,
  caller: Caller,
  source: WorkspaceSource,
  { binding }: InUse,
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

/** By file, as the dialect tells it. */
function errorsOf({ exports, info }: Pick<Description, "exports" | "info">): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const { id, tool } of exports) {
    if (tool.load_error !== undefined) errors[filesOf(info)[id] ?? id] = tool.load_error;
  }
  return errors;
}

/** Files of tools that work in the version in use. */
function goodFiles(definitions: Definitions | null): Set<string> {
  const exports = definitions?.exports ?? [];
  const files = filesOf(definitions?.info ?? {});
  const good = exports.filter(({ tool }) => tool.load_error === undefined);
  return new Set(good.flatMap(({ id }) => files[id] ?? []));
}

function filesOf(info: Description["info"]): Record<string, string> {
  return (info.files ?? {}) as Record<string, string>;
}

/** Left-overs do no harm: a package that somebody has bound besides stays. */
async function sweep({ deps, rows }: LoadParts, caller: Caller, id: string): Promise<void> {
  try {
    const row = await deps.store.packages.get(caller.scope.org_id, id);
    if (row !== null) await rows.remove(caller, row);
  } catch (error) {
    deps.log.warn({ err: toBackplaneError(error), package: id }, "an old snapshot of a folder stays");
  }
}
