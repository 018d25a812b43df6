/**
 * Imports the parts of a source. A part that cannot be used is left out and reported, if the source has others; with
 * `strict` it fails the installation. Imported bytes are held until they are stored or discarded.
 */

import { BackplaneError, isPartError, type LeftOut, type Package, toLeftOut } from "@backplane/contract";
import {
  type Caller,
  type HighestSigned,
  type ImportedPackage,
  type KernelDeps,
  type OpenedSource,
  type Operation,
  requireNotCancelled,
  type SourcePart,
} from "@backplane/ports";
import type { PackageRows } from "../packages/package-rows.ts";
import type { SignaturePolicy } from "../signatures/signature-policy.ts";

export interface ImportedPart {
  part: SourcePart;
  /** The row to be stored, or the stored row of the same bytes. */
  row: Package;
  highest?: HighestSigned;
}

export interface HeldBytes {
  /** Ends the hold once the bytes have a row. */
  release(): void;
  /** Removes the bytes that have no row. */
  discard(): Promise<void>;
}

export async function importParts(
  deps: KernelDeps,
  rows: PackageRows,
  caller: Caller,
  opened: OpenedSource,
  options: {
    strict: boolean;
    /** The id of the marketplace entry that the packages come from. */
    marketplace: string | undefined;
    operation: Operation;
    requireAccess: (part: SourcePart) => void;
    /** Throws if the signature of the package does not allow the installation. */
    checkImported: (imported: ImportedPackage) => ReturnType<SignaturePolicy["checkImported"]>;
  },
): Promise<{ parts: ImportedPart[]; left_out: LeftOut[]; notes: string[]; held: HeldBytes }> {
  const { strict } = options;
  const left_out = [...opened.left_out];
  if (strict) requireComplete(left_out, opened);
  const parts: ImportedPart[] = [];
  const notes: string[] = [];
  const held_digests: string[] = [];
  const discard = async () => {
    for (let digest = held_digests.pop(); digest !== undefined; digest = held_digests.pop())
      await rows.discard(digest);
  };
  try {
    for (const part of opened.parts) {
      const held_count = held_digests.length;
      try {
        requireNotCancelled(options.operation);
        options.requireAccess(part);
        const imported_package = await opened.import(part);
        held_digests.push(imported_package.digest);
        const { marketplace } = options;
        const imported: ImportedPackage =
          marketplace === undefined
            ? imported_package
            : { ...imported_package, origin: "marketplace", marketplace };
        const { state, ...signature_result } = await options.checkImported(imported);
        const row = await findRow(deps, { ...rows.draft(caller, imported), signature: state }, part);
        requireRunnable(deps, row);
        requireUnique(parts, row);
        parts.push({ part, row, ...signature_result });
        notes.push(...(imported.notes ?? []));
      } catch (error) {
        if (held_digests.length > held_count) await rows.discard(held_digests.pop()!);
        left_out.push(leaveOut(opened, part, error));
      }
    }
    if (strict || parts.length === 0) requireComplete(left_out, opened);
    if (parts.length === 0)
      throw new BackplaneError(
        "package.invalid",
        `${describeSource(opened)} contains neither a server nor a skill.`,
      );
    // If a part was left out during the import, its dependencies may be unknown, so this check is skipped.
    if (left_out.length === opened.left_out.length) opened.assertAllowedFound();
  } catch (error) {
    await discard();
    throw error;
  }
  const release = () => {
    for (const digest of held_digests.splice(0)) deps.importer.release(digest);
  };
  return { parts, left_out, notes, held: { release, discard } };
}

/** Markers in a manifest's `source` for code that ran during the installation; its results may differ between runs. */
const INSTALL_CODE_MARKS = [
  ["; install scripts: ", "different results of install scripts"],
  ["; built from source: ", "different results of a build"],
] as const;

async function findRow(deps: KernelDeps, draft: Package, part: SourcePart): Promise<Package> {
  const { org_id, package_id, version, digest } = draft;
  const existing = await deps.store.packages.find(org_id, package_id, version);
  if (existing === null) return draft;
  if (existing.digest === digest) return existing;
  const details = { package_id, version, installed: existing.digest, given: digest };
  const message = `${package_id} ${version} is already installed with different content.`;
  if (!part.registry) throw new BackplaneError("package.conflict", message, { details });
  const formatSlots = (row: Package) => JSON.stringify(row.manifest.runtime.permissions?.secret_slots ?? []);
  const has_same_slots = formatSlots(existing) === formatSlots(draft);
  const mark = INSTALL_CODE_MARKS.find(([text]) => draft.manifest.source.includes(text));
  const difference = !has_same_slots ? "different secret slots" : (mark?.[1] ?? "different dependencies");
  throw new BackplaneError("package.conflict", `${part.name} is already installed with ${difference}.`, {
    details,
    fix:
      difference === "different secret slots"
        ? "Add the secret to its binding: backplane binding set NAME --secret SLOT=SECRET"
        : "To change its settings: backplane binding set NAME. To replace it, remove its binding and the package (backplane binding list, backplane plugin list), then install it again.",
  });
}

function requireRunnable({ runner }: Pick<KernelDeps, "runner">, { manifest }: Package): void {
  const { protocol } = manifest.runtime;
  // A package of skills contains nothing that runs.
  if (protocol === "skills" || runner.runs?.(protocol) !== false) return;
  throw new BackplaneError("package.invalid", `This gateway does not run ${protocol} packages.`, {
    details: { protocol },
    fix: "Use the protocol vai.rpc.v1, or a version of Backplane that runs this one.",
  });
}

/** A package has one binding for each scope, so a second server of the same package would be lost silently. */
function requireUnique(parts: readonly ImportedPart[], { package_id, version }: Package): void {
  const duplicate = parts.find(({ row }) => row.package_id === package_id && row.version === version);
  if (duplicate === undefined) return;
  const message = `${duplicate.part.name} is the same package (${package_id} ${version}), and a package can be installed only once.`;
  throw new BackplaneError("package.conflict", message, {
    details: { package_id, version },
    fix: "Install the package once, and give its server the arguments of both.",
  });
}

/**
 * Returns the report of a part that cannot be used. Rethrows the error if it is not the fault of the part (for example,
 * the store is unavailable), if the part is a package with a manifest, or if it is the only part of a source that is not
 * an Agent Plugin.
 */
function leaveOut({ kind, parts }: OpenedSource, part: SourcePart, thrown: unknown): LeftOut {
  const is_only_part = parts.length === 1 && kind !== "agent_plugin";
  if (is_only_part || part.kind === "package" || !isPartError(thrown)) throw thrown;
  return toLeftOut(part.kind, part.name, thrown);
}

function requireComplete(left_out: readonly LeftOut[], opened: OpenedSource): void {
  const [first] = left_out;
  if (first === undefined) return;
  const origin = opened.plugin === undefined ? "" : ` of ${opened.plugin.name}`;
  const more = left_out.length === 1 ? "" : ` (and ${left_out.length - 1} more)`;
  const description = `The ${first.kind} ${first.name}${origin} cannot be used${more}: ${first.reason}`;
  throw new BackplaneError("package.invalid", description, {
    details: { left_out },
    ...(first.fix === null ? {} : { fix: first.fix }),
  });
}

function describeSource({ plugin }: OpenedSource): string {
  return plugin === undefined ? "The source" : `The plugin ${plugin.name}`;
}
