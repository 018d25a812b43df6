/** The current names of tools that were requested under a former name of their MCP server. */
import { type CatalogEntry, serverName } from "@backplane/contract";
import { ifAllowed } from "../../bindings/report-tools.ts";
import type { CommandContext } from "../../context/context.ts";

const AUDIT_PAGE = 200;

/**
 * The former names of a server are those in the newest audit entries, if the credential may read these entries, and the
 * name derived from its package.
 */
export async function findCurrentNames(
  context: CommandContext,
  name: string,
  tools: readonly CatalogEntry[],
): Promise<string[]> {
  if (!name.startsWith("mcp_")) return [];
  const changes = await ifAllowed(
    context.client().audit.list({ action: "binding.change", limit: AUDIT_PAGE }),
  );
  const former_names = new Map<string, Set<string>>();
  for (const { subject, details } of changes?.items ?? []) {
    if (typeof details.former_name !== "string") continue;
    former_names.set(subject, (former_names.get(subject) ?? new Set()).add(details.former_name));
  }
  const matches = tools.filter(({ name: current, binding_id, package_id }) =>
    [...(former_names.get(binding_id) ?? []), serverName(package_id)].some((server) =>
      isRenamed(name, current, server),
    ),
  );
  // Several tool names may have the same ending; the shortest has nothing between the server's name and the ending.
  const nearest = new Map<string, string>();
  for (const { name: current, binding_id } of matches) {
    const shortest = nearest.get(binding_id);
    if (shortest === undefined || current.length < shortest.length) nearest.set(binding_id, current);
  }
  return [...nearest.values()];
}

/** Compares only the ends: one of the names may omit the part of the tool's own name that repeats the server's. */
function isRenamed(requested: string, current: string, server: string): boolean {
  const prefix = `mcp_${server}_`;
  return (
    requested !== current &&
    current.startsWith("mcp_") &&
    requested.startsWith(prefix) &&
    current.endsWith(`_${requested.slice(prefix.length)}`)
  );
}
