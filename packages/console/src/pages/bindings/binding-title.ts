import { type Binding, WHOLE_PACKAGE } from "@backplane/contract";

/** The export's id, or the name of the server or package if the whole package is bound. */
export function bindingTitle({
  export_id,
  package_id,
  config,
}: Pick<Binding, "export_id" | "package_id" | "config">): string {
  if (export_id !== WHOLE_PACKAGE) return export_id;
  return typeof config.name === "string" ? config.name : package_id.split("/").at(-1)!;
}
