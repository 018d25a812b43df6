/**
 * Finds a binding by its id, its package (`acme/jira` or `jira`) or its export; the API knows ids only. An ambiguous name
 * is an error that lists the ids, since the command may be `remove`.
 */
import { BackplaneError, type Binding, boundServerName, serverName } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";

export async function findBinding(context: CommandContext, name: string): Promise<Binding> {
  const { bindings } = context.client();
  if (name.startsWith("bind_")) return await bindings.get(name);
  const found = (await listAll((page) => bindings.list(page))).filter((item) => matchesName(item, name));
  if (found.length === 1) return found[0]!;
  const ids = found.map(({ binding_id, export_id }) => `${binding_id} (${export_id})`).join(", ");
  throw new BackplaneError(
    "binding.not_found",
    found.length === 0 ? `No binding matches ${name}.` : `Several bindings match ${name}: ${ids}.`,
    { fix: "Use a binding id from: backplane binding list" },
  );
}

function matchesName(binding: Binding, name: string): boolean {
  const { export_id, package_id, package_version } = binding;
  const names = [
    export_id,
    package_id,
    `${package_id}@${package_version}`,
    serverName(package_id),
    boundServerName(binding),
  ];
  return names.includes(name);
}
