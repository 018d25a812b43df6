/**
 * The secret slots of an MCP server are those that its package declares, those that its binding fills, and those that
 * the configuration of its binding refers to. A package cannot know all of them: the operator may pass any variable,
 * argument or header to a server.
 */
import { type Binding, type Package, type PluginExport, placeholderSlots } from "@backplane/contract";

export function hasOpenSlots({ manifest }: Pick<Package, "manifest">): boolean {
  const { protocol } = manifest.runtime;
  return protocol === "mcp.stdio" || protocol === "mcp.http";
}

export function listSlots(
  checked: { package: Pick<Package, "manifest">; export: PluginExport },
  { config, secrets }: Pick<Binding, "config" | "secrets">,
): string[] {
  const declared = checked.export.permissions.secret_slots;
  if (!hasOpenSlots(checked.package)) return declared;
  const { args, env, headers } = config;
  const further_slots = [
    ...Object.keys(secrets),
    ...placeholderSlots([args ?? null, env ?? null, headers ?? null]),
  ];
  return [...new Set([...declared, ...further_slots])];
}
