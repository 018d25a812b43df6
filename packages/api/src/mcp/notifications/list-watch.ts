/**
 * Notifies clients that a list of their scope has changed. After a change, the lists of a scope are read once for all
 * its listeners, and only an actual difference is reported, so changes in other projects cause no notification. A
 * server's notifications about its own lists go to the callers that may see the server.
 */
import { hash } from "node:crypto";
import type {
  Caller,
  CatalogTool,
  Clock,
  Kernel,
  ServerInfo,
  ServerNotification,
  Timer,
} from "@backplane/ports";

/** Other nodes also change bindings, and do not notify this one. */
const POLL_MS = 10_000;

export type ChangedList = "tools" | "resources" | "prompts";

export interface ListListener {
  onListChanged(list: ChangedList): void;
  /** Any other notification of a server. */
  onNotification(notification: ServerNotification): void;
}

export interface ListWatch {
  /** Every change after this resolves is reported. Returns the function that unsubscribes. */
  listen(caller: Caller, listener: ListListener): Promise<() => void>;
  close(): void;
}

interface WatchedScope {
  caller: Caller;
  tools: readonly CatalogTool[];
  tools_digest: string;
  servers: readonly ServerInfo[];
  listeners: Set<ListListener>;
}

const CHANGED_LISTS: ReadonlyMap<string, ChangedList> = new Map([
  ["notifications/tools/list_changed", "tools"],
  ["notifications/resources/list_changed", "resources"],
  ["notifications/prompts/list_changed", "prompts"],
]);
const UPDATED = "notifications/resources/updated";

export function createListWatch({ catalog, servers }: Kernel, clock: Clock): ListWatch {
  const scopes = new Map<string, WatchedScope>();
  let timer: Timer | null = null;
  const unsubscribeCatalog = catalog.onChanged((org_id) => {
    for (const watched of scopes.values())
      if (org_id === null || watched.caller.scope.org_id === org_id) void refresh(watched);
  });
  const unsubscribeServers = servers.onNotification((notification) => {
    for (const watched of scopes.values()) void forward(watched, notification);
  });

  async function refresh(watched: WatchedScope): Promise<void> {
    // When the store is unavailable, the next poll reads again.
    const tools = await catalog.list(watched.caller).catch(() => watched.tools);
    await refreshServers(watched);
    if (tools === watched.tools) return;
    watched.tools = tools;
    const tools_digest = digestOf(tools);
    if (tools_digest === watched.tools_digest) return;
    watched.tools_digest = tools_digest;
    notify(watched, "tools");
  }

  async function refreshServers(watched: WatchedScope): Promise<void> {
    const current = await servers.list(watched.caller).catch(() => watched.servers);
    const previous = watched.servers;
    watched.servers = current;
    if (namesOf(current) === namesOf(previous)) return;
    notify(watched, "resources");
    notify(watched, "prompts");
  }

  async function forward(watched: WatchedScope, notification: ServerNotification): Promise<void> {
    const list = CHANGED_LISTS.get(notification.method);
    // Changes of tools are reported by the catalog.
    if (list === "tools") return;
    const visible = await servers.list(watched.caller).catch(() => watched.servers);
    const server = visible.find(({ binding_id }) => binding_id === notification.binding_id);
    if (server === undefined) return;
    // A policy may have removed the resources after the client subscribed.
    if (notification.method === UPDATED && server.capabilities.resources === undefined) return;
    if (list !== undefined) notify(watched, list);
    // A binding may belong to the whole org, but a process contains the data of one project.
    else if (watched.caller.scope.project_id !== notification.project_id) return;
    else for (const listener of watched.listeners) listener.onNotification(notification);
  }

  function notify(watched: WatchedScope, list: ChangedList): void {
    for (const listener of watched.listeners) listener.onListChanged(list);
  }

  function schedulePoll(): void {
    timer ??= clock.after(POLL_MS, () => {
      timer = null;
      for (const watched of scopes.values()) void refresh(watched);
      if (scopes.size > 0) schedulePoll();
    });
  }

  return {
    async listen(caller, listener) {
      const key = keyOf(caller);
      const tools = await catalog.list(caller);
      const visible = await servers.list(caller);
      const watched: WatchedScope = scopes.get(key) ?? {
        caller,
        tools,
        tools_digest: digestOf(tools),
        servers: visible,
        listeners: new Set(),
      };
      scopes.set(key, watched);
      watched.listeners.add(listener);
      schedulePoll();
      return () => {
        watched.listeners.delete(listener);
        if (watched.listeners.size === 0 && scopes.get(key) === watched) scopes.delete(key);
      };
    },
    close() {
      unsubscribeCatalog();
      unsubscribeServers();
      timer?.stop();
      scopes.clear();
    },
  };
}

function keyOf({ scope, role, delegation, actor, tools = [] }: Caller): string {
  // A policy may allow different tools for each role, and a key may be limited to some tools.
  const visibility = delegation === undefined ? `${role}\n${tools.join(",")}` : actor;
  return `${scope.org_id}\n${scope.project_id}\n${visibility}`;
}

function digestOf(tools: readonly CatalogTool[]): string {
  return hash("sha256", JSON.stringify(tools));
}

function namesOf(servers: readonly ServerInfo[]): string {
  return servers.map(({ name, binding_id }) => `${name}\n${binding_id}`).join("\n");
}
