/** The current names of tools that were requested under a former name of their MCP server. */
import { type CatalogEntry, serverName } from "@backplane/contract";
import { ifAllowed } from "../../bindings/report-tools.ts";
import type { CommandContext } from "../../context/context.ts";

const AUDIT_PAGE = 200;

/** Former names are those in the audit log, if the credential may read it, and the name of the server's package. */
export async function namesAfterRename(
  context: CommandContext,
  name: string,
  tools: readonly CatalogEntry[],
): Promise<string[]> {
  if (!name.startsWith("mcp_")) return [];
  const changes = await ifAllowed(
    context.client().audit.list({ action: "binding.change", limit: AUDIT_PAGE }),
  );
  const former = new Map<string, Set<string>>();
  for (const { subject, details } of changes?.items ?? []) {
    if (typeof details.former_name !== "string") continue;
    former.set(subject, (former.get(subject) ?? new Set()).add(details.former_name));
  }
  const matches = tools.filter(({ name: present, binding_id, package_id }) =>
    [...(former.get(binding_id) ?? []), serverName(package_id)].some((server) =>
      isRenamed(name, present, server),
    ),
  );
  // Several tool names may end alike; the shortest has nothing between the server's name and that ending.
  const nearest = new Map<string, string>();
  for (const { name: present, binding_id } of matches) {
    const other = nearest.get(binding_id);
    if (other === undefined || present.length < other.length) nearest.set(binding_id, present);
  }
  return [...nearest.values()];
}

/** Compares only the ends: one of the names may omit the part of the tool's own name that repeats the server's. */
function isRenamed(requested: string, present: string, server: string): boolean {
  const prefix = `mcp_${server}_`;
  return (
    requested !== present &&
    present.startsWith("mcp_") &&
    requested.startsWith(prefix) &&
    present.endsWith(`_${requested.slice(prefix.length)}`)
  );
}
