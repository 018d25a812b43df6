/** Describes where a package from npm was built, and what changes with another version. */

import type { Package, Provenance, ProvenanceBuild } from "../schema/index.ts";
import { neutralChange, type PackageChange, riskierChange } from "./package-change.ts";

export function describeProvenance({ state, reason, build, checked_at, trust_root }: Provenance): string {
  if (build !== null)
    return `built from ${describeBuild(build)}; verified ${checked_at} with ${trust_root?.name}`;
  return state === "none" ? "the publisher provides no provenance" : `published, but not verified: ${reason}`;
}

function describeBuild({ repository, commit, workflow, runner, issuer }: ProvenanceBuild): string {
  const machine = runner === null ? issuer : `${runner} (${issuer})`;
  return `${repository} at ${commit} by ${shortWorkflow(repository, workflow)} on ${machine}`;
}

/** The path of a workflow in its own repository. */
function shortWorkflow(repository: string, workflow: string): string {
  return workflow.startsWith(`${repository}/`) ? workflow.slice(repository.length + 1) : workflow;
}

/** Returns each change that an operator should know before an upgrade. A new commit is expected. */
export function compareProvenance(
  { provenance: before }: Pick<Package, "provenance">,
  { provenance: after }: Pick<Package, "provenance">,
): PackageChange[] {
  if (after === undefined) return [];
  const [old, next] = [before?.build ?? null, after.build];
  if (old === null)
    return next === null ? [] : [neutralChange(`It now has provenance: ${describeProvenance(after)}.`)];
  if (next === null) {
    const reason = after.state === "none" ? "the publisher provides none" : describeProvenance(after);
    return [
      riskierChange(
        `It no longer has verified provenance: ${reason}. The version in use was built from ${old.repository}.`,
      ),
    ];
  }
  const changes: [what: string, before: string | null, after: string | null][] = [
    ["repository", old.repository, next.repository],
    ["workflow", old.workflow, next.workflow],
    ["build service", old.issuer, next.issuer],
    ["kind of machine", old.runner, next.runner],
  ];
  return changes
    .filter(([, from, to]) => from !== to)
    .map(([what, from, to]) =>
      riskierChange(`Its ${what} changed: ${to ?? "unknown"} instead of ${from ?? "unknown"}.`),
    );
}
