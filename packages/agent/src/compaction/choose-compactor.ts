/**
 * Lists the compactors that can perform a compaction, in order (compactor.choice). A caller can request one. Otherwise
 * compactors made for the conversation's context come first, then general ones. The others come last; they are listed
 * because an operator who bound only one of them expects it to be used. Within that order a project's bindings come
 * before the org's. The rollout of an export selects one of its bindings, or none, by the session.
 */
import { BackplaneError, type ManifestCompactorExport } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { pickBinding, sortProjectFirst } from "@backplane/registry";

export interface CompactorChoice {
  /** A binding id, an export id or `package_id/export_id`; null if the caller requested none. */
  requested: string | null;
  target_context: string;
  /** Keeps a session with one binding during a rollout. */
  session_id: string;
}

export interface CompactorCandidate {
  bound: BoundPackage;
  compactor: ManifestCompactorExport["compactor"];
}

export const GENERAL_CONTEXT = "general";

export function chooseCompactors(
  bound_packages: readonly BoundPackage[],
  choice: CompactorChoice,
): CompactorCandidate[] {
  const { requested, session_id } = choice;
  const matching =
    requested === null ? bound_packages : bound_packages.filter((bound) => matchesRequest(bound, requested));
  const exact = matching.find(({ binding }) => binding.binding_id === requested);
  const picked = exact === undefined ? pickBindingPerExport(matching, session_id) : [exact];
  if (requested !== null && picked.length === 0) {
    throw new BackplaneError("export.not_found", `No compactor ${requested} is bound and active here.`, {
      fix: "GET /v1/plugin-compactors lists the compactors that you can use.",
    });
  }
  const candidates = sortProjectFirst(picked).flatMap((bound) => candidateOf(bound) ?? []);
  const rank = ({ compactor }: CompactorCandidate) =>
    rankContext(compactor.target_context, choice.target_context);
  return candidates.sort((a, b) => rank(a) - rank(b));
}

function matchesRequest({ binding }: BoundPackage, requested: string): boolean {
  const { binding_id, export_id, package_id } = binding;
  return binding_id === requested || export_id === requested || `${package_id}/${export_id}` === requested;
}

function pickBindingPerExport(bound_packages: readonly BoundPackage[], session_id: string): BoundPackage[] {
  const exports = Map.groupBy(bound_packages, ({ binding }) => `${binding.package_id}/${binding.export_id}`);
  return [...exports.values()].flatMap((group) => pickBinding(group, session_id) ?? []);
}

function candidateOf(bound: BoundPackage): CompactorCandidate | null {
  const bound_export = bound.package.manifest.exports.find(({ id }) => id === bound.binding.export_id);
  return bound_export?.kind === "compactor" ? { bound, compactor: bound_export.compactor } : null;
}

function rankContext(context: string, wanted: string): number {
  if (context === wanted) return 0;
  return context === GENERAL_CONTEXT ? 1 : 2;
}
