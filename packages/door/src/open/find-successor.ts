import type { BoundPackage, InvocationRow } from "@backplane/ports";
import type { BindingSource } from "@backplane/registry";

/** Finds the binding that took over from the share to which the call was assigned, and that has the call's version. */
export async function findSuccessor(
  bindings: Pick<BindingSource, "findCandidates">,
  {
    org_id,
    project_id,
    binding_id,
    export_id,
    package_id,
    package_version,
  }: Pick<
    InvocationRow,
    "org_id" | "project_id" | "binding_id" | "export_id" | "package_id" | "package_version"
  >,
): Promise<BoundPackage | null> {
  const candidates = await bindings.findCandidates({ org_id, project_id }, export_id, package_id);
  const tookOverShare = ({ binding }: BoundPackage) =>
    binding.package_version === package_version && binding.previous?.shares?.includes(binding_id) === true;
  return candidates.find(tookOverShare) ?? null;
}
