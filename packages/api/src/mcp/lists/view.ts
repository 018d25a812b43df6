/** The content of an endpoint: the whole catalog under the names of the catalog, or one server under its own names. */
import type { Caller, Kernel, ServerInfo } from "@backplane/ports";

export interface View {
  /** Null for the whole catalog. */
  server: ServerInfo | null;
}

export const WHOLE_CATALOG: View = { server: null };

/** Null if the caller sees no server with this name or binding id. */
export async function findView(kernel: Kernel, caller: Caller, name: string): Promise<View | null> {
  const servers = await kernel.servers.list(caller);
  const server = servers.find((each) => each.name === name || each.binding_id === name);
  return server === undefined ? null : { server };
}

export async function listViewServers(
  kernel: Kernel,
  caller: Caller,
  view: View,
): Promise<readonly ServerInfo[]> {
  return view.server === null ? await kernel.servers.list(caller) : [view.server];
}
