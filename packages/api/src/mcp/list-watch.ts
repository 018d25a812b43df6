/**
 * Who wants to hear that the lists of its scope have changed. One look serves all listeners of a scope, and only a list
 * that reads differently is told: a change in another project says nothing here. What a server behind says of its own
 * lists is passed on to those who may see it.
 */
import { hash } from "node:crypto";
import type { Caller, CatalogTool, Clock, Kernel, ServerInfo, ServerNotice, Timer } from "@backplane/kernel";

/** Another node changes bindings too, and none tells us. */
const LOOK_AGAIN_MS = 10_000;

export type Changed = "tools" | "resources" | "prompts";

interface Listener {
  changed(list: Changed): void;
  /** What a server tells that is no change of a list. */
  notice(notice: ServerNotice): void;
}

export interface ListWatch {
  /** From when this resolves on, every change is told. Answers how to stop. */
  listen(caller: Caller, listener: Listener): Promise<() => void>;
  close(): void;
}

interface Watched {
  caller: Caller;
  seen: readonly CatalogTool[];
  print: string;
  servers: readonly ServerInfo[];
  listeners: Set<Listener>;
}

const LISTS: ReadonlyMap<string, Changed> = new Map([
  ["notifications/tools/list_changed", "tools"],
  ["notifications/resources/list_changed", "resources"],
  ["notifications/prompts/list_changed", "prompts"],
]);
const UPDATED = "notifications/resources/updated";

export function createListWatch({ catalog, servers }: Kernel, clock: Clock): ListWatch {
  const scopes = new Map<string, Watched>();
  let timer: Timer | null = null;
  const stop = catalog.onChanged((org_id) => {
    for (const watched of scopes.values())
      if (org_id === null || watched.caller.scope.org_id === org_id) void look(watched);
  });
  const deaf = servers.onNotice((notice) => {
    for (const watched of scopes.values()) void pass(watched, notice);
  });

  async function look(watched: Watched): Promise<void> {
    // A store that does not answer now is asked again later.
    const tools = await catalog.list(watched.caller).catch(() => watched.seen);
    await lookAtServers(watched);
    if (tools === watched.seen) return;
    watched.seen = tools;
    const print = printOf(tools);
    if (print === watched.print) return;
    watched.print = print;
    tell(watched, "tools");
  }

  async function lookAtServers(watched: Watched): Promise<void> {
    const now = await servers.list(watched.caller).catch(() => watched.servers);
    const before = watched.servers;
    watched.servers = now;
    if (namesOf(now) === namesOf(before)) return;
    tell(watched, "resources");
    tell(watched, "prompts");
  }

  async function pass(watched: Watched, notice: ServerNotice): Promise<void> {
    const list = LISTS.get(notice.method);
    // What tools there are is the catalog's to say.
    if (list === "tools") return;
    const visible = await servers.list(watched.caller).catch(() => watched.servers);
    const server = visible.find(({ binding_id }) => binding_id === notice.binding_id);
    if (server === undefined) return;
    // A subscription may be older than the policy that takes the resources away.
    if (notice.method === UPDATED && server.capabilities.resources === undefined) return;
    if (list !== undefined) tell(watched, list);
    // What one project's process says holds that project's data, though the binding is everybody's.
    else if (watched.caller.scope.project_id !== notice.project_id) return;
    else for (const listener of watched.listeners) listener.notice(notice);
  }

  function tell(watched: Watched, list: Changed): void {
    for (const listener of watched.listeners) listener.changed(list);
  }

  function arm(): void {
    timer ??= clock.after(LOOK_AGAIN_MS, () => {
      timer = null;
      for (const watched of scopes.values()) void look(watched);
      if (scopes.size > 0) arm();
    });
  }

  return {
    async listen(caller, listener) {
      const key = keyOf(caller);
      const seen = await catalog.list(caller);
      const there = await servers.list(caller);
      const watched =
        scopes.get(key) ??
        ({ caller, seen, print: printOf(seen), servers: there, listeners: new Set() } satisfies Watched);
      scopes.set(key, watched);
      watched.listeners.add(listener);
      arm();
      return () => {
        watched.listeners.delete(listener);
        if (watched.listeners.size === 0 && scopes.get(key) === watched) scopes.delete(key);
      };
    },
    close() {
      stop();
      deaf();
      timer?.stop();
      scopes.clear();
    },
  };
}

function keyOf({ scope, role, delegation, actor }: Caller): string {
  // Policies say per role what is there.
  const own = delegation === undefined ? role : actor;
  return `${scope.org_id}\n${scope.project_id}\n${own}`;
}

function printOf(tools: readonly CatalogTool[]): string {
  return hash("sha256", JSON.stringify(tools));
}

function namesOf(servers: readonly ServerInfo[]): string {
  return servers.map(({ name, binding_id }) => `${name}\n${binding_id}`).join("\n");
}
