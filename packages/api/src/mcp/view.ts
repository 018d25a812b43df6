/** What an endpoint serves: the whole catalog under its names, or one server under the server's own. */
import type { Caller, Kernel, ServerInfo } from "@backplane/kernel";

export interface View {
  /** Null: everything. */
  server: ServerInfo | null;
}

export const EVERYTHING: View = { server: null };

/** Null: the caller may not see a server of this name. A binding id names one too. */
export async function viewOf(kernel: Kernel, caller: Caller, name: string): Promise<View | null> {
  const servers = await kernel.servers.list(caller);
  const server = servers.find((one) => one.name === name || one.binding_id === name);
  return server === undefined ? null : { server };
}

/** The servers that are part of a view. */
export async function serversOf(kernel: Kernel, caller: Caller, view: View): Promise<readonly ServerInfo[]> {
  return view.server === null ? await kernel.servers.list(caller) : [view.server];
}
