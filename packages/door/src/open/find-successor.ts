import type { BoundPackage, InvocationRow } from "@backplane/ports";
import type { BindingSource } from "@backplane/registry";

/** The binding that has absorbed the share which the call was assigned to, now in the version of the call. */
export async function findSuccessor(
  bindings: Pick<BindingSource, "candidates">,
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
  const found = await bindings.candidates({ org_id, project_id }, export_id, package_id);
  const absorbed = ({ binding }: BoundPackage) =>
    binding.package_version === package_version && binding.previous?.shares?.includes(binding_id) === true;
  return found.find(absorbed) ?? null;
}
