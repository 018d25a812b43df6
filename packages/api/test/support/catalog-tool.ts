import type { CatalogTool } from "@backplane/ports";

export const createCatalogTool = (name: string): CatalogTool => ({
  name,
  title: null,
  description: "",
  input_schema: {},
  output_schema: null,
  effect_class: "unknown",
  requires_approval: false,
  deferred: false,
  risk: "unknown",
  origin: "plugin",
  package_id: "acme/devkit",
  binding_id: null,
});
