import type { Binding } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";

/** The bindings that an upgrade may change: those of the project, or with `orgWide` those without a project. */
export async function listScopeBindings(
  context: CommandContext,
  package_id: string,
  { orgWide }: { orgWide?: boolean | undefined },
): Promise<Binding[]> {
  const client = context.client();
  const { caller } = await client.status();
  const project_id = orgWide === true ? null : caller.project_id;
  const all_bindings = await listAll((page) => client.bindings.list({ ...page, package_id }));
  return all_bindings.filter(({ scope }) => scope.project_id === project_id);
}
