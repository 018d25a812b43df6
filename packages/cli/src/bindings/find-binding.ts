/**
 * Finds a binding by its id, package (`acme/jira`), server name (`jira`) or export; the API accepts only ids. An
 * ambiguous name is an error that lists the ids, since the command may be `remove`.
 */
import { BackplaneError, type Binding, boundServerName, serverName } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";

export async function findBinding(context: CommandContext, name: string): Promise<Binding> {
  const { bindings } = context.client();
  if (name.startsWith("bind_")) return await bindings.get(name);
  const matches = (await listAll((page) => bindings.list(page))).filter((item) => matchesName(item, name));
  if (matches.length === 1) return matches[0]!;
  const ids = matches.map(({ binding_id, export_id }) => `${binding_id} (${export_id})`).join(", ");
  throw new BackplaneError(
    "binding.not_found",
    matches.length === 0 ? `No binding matches ${name}.` : `Several bindings match ${name}: ${ids}.`,
    { fix: "Use a binding id from: backplane binding list" },
  );
}

/** The id of the binding. A given id is not looked up, because its binding may have been removed. */
export async function findBindingId(context: CommandContext, name: string): Promise<string> {
  return name.startsWith("bind_") ? name : (await findBinding(context, name)).binding_id;
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
