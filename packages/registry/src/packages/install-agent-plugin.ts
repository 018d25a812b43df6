/**
 * Installs an Agent Plugins folder as several packages, with the same checks as any package. A part that cannot be
 * used is left out and reported; with `strict` nothing is installed in that case.
 */

import {
  type AgentPluginInstalled,
  BackplaneError,
  isPartFault,
  type LeftOut,
  leftOut,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type AgentPluginPart,
  type AgentPluginSource,
  type Caller,
  type ImportedPackage,
  type KernelDeps,
  requireOperator,
} from "@backplane/ports";
import { requireRunnable, requireSourceAccess } from "./check-source.ts";
import type { PackageRows } from "./package-rows.ts";

type Installed = AgentPluginInstalled["packages"][number];

interface ImportedPart {
  part: AgentPluginPart;
  imported: ImportedPackage;
}

export async function installAgentPlugin(
  deps: KernelDeps,
  rows: PackageRows,
  caller: Caller,
  source: AgentPluginSource,
  { strict }: { strict: boolean },
): Promise<AgentPluginInstalled> {
  requireOperator(caller, "install packages");
  requireSourceAccess(caller, source.kind === "archive");
  const opened = await deps.importer.openAgentPlugin(source);
  const pending: ImportedPart[] = [];
  try {
    const left_out = [...opened.left_out];
    if (strict) requireComplete(left_out, opened.name);
    for (const part of opened.parts) {
      try {
        // A part that comes from a registry is not part of the upload.
        requireSourceAccess(caller, source.kind === "archive" && !part.registry);
        pending.push({ part, imported: await requireRunnable(deps, rows, await opened.import(part)) });
      } catch (error) {
        left_out.push(leftOutPart(part, error));
      }
    }
    const incomplete = strict && left_out.length > 0;
    const { packages, refused } = await addParts(rows, caller, incomplete ? [] : pending);
    left_out.push(...refused);
    if (strict && left_out.length > 0) await removeInstalled(rows, caller, packages);
    if (strict || packages.length === 0) requireComplete(left_out, opened.name);
    if (packages.length === 0)
      throw new BackplaneError("package.invalid", `The plugin ${opened.name} has no server and no skill.`);
    const { name, version } = opened;
    return { plugin: { name, version }, packages, left_out, notes: [...opened.notes] };
  } finally {
    // Whatever ended the installation, imports without a row are discarded.
    for (const { imported } of pending) await rows.discard(imported.digest);
    await opened.end();
  }
}

/** Removes each part from `pending` as it is added or refused. */
async function addParts(
  rows: PackageRows,
  caller: Caller,
  pending: ImportedPart[],
): Promise<{ packages: Installed[]; refused: LeftOut[] }> {
  const packages: Installed[] = [];
  const refused: LeftOut[] = [];
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { part, imported } = next;
    try {
      const added = await rows.add(caller, rows.draft(caller, imported));
      const { package_id, version } = added.package;
      const binding = { package_id, package_version: version, export_id: WHOLE_PACKAGE, ...part.binding };
      packages.push({ ...added, binding });
    } catch (error) {
      refused.push(leftOutPart(part, error));
    }
  }
  return { packages, refused };
}

async function removeInstalled(
  rows: PackageRows,
  caller: Caller,
  packages: readonly Installed[],
): Promise<void> {
  for (const one of packages) if (one.created) await rows.remove(caller, one.package);
}

function requireComplete(left_out: readonly LeftOut[], plugin: string): void {
  const [first] = left_out;
  if (first === undefined) return;
  const what = `The ${first.kind} ${first.name} of ${plugin} cannot be used: ${first.reason}`;
  throw new BackplaneError("package.invalid", what, {
    details: { left_out },
    ...(first.fix === null ? {} : { fix: first.fix }),
  });
}

/** Rethrows errors that are not the fault of the part, such as an unavailable store. */
function leftOutPart({ kind, name }: AgentPluginPart, thrown: unknown): LeftOut {
  if (!isPartFault(thrown)) throw thrown;
  return leftOut(kind, name, thrown);
}
