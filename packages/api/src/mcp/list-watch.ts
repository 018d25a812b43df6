/**
 * Who wants to hear that the tools of its scope have changed. One look serves all listeners of a scope, and only a list
 * that reads differently is told: a change in another project says nothing here.
 */
import { hash } from "node:crypto";
import type { Caller, Catalog, CatalogTool, Clock, Timer } from "@backplane/kernel";

/** Another node changes bindings too, and none tells us. */
const LOOK_AGAIN_MS = 10_000;

export interface ListWatch {
  /** From when this resolves on, every change is told. Answers how to stop. */
  listen(caller: Caller, changed: () => void): Promise<() => void>;
  close(): void;
}

interface Watched {
  caller: Caller;
  seen: readonly CatalogTool[];
  print: string;
  listeners: Set<() => void>;
}

export function createListWatch(catalog: Pick<Catalog, "list" | "onChanged">, clock: Clock): ListWatch {
  const scopes = new Map<string, Watched>();
  let timer: Timer | null = null;
  const stop = catalog.onChanged((org_id) => {
    for (const watched of scopes.values())
      if (org_id === null || watched.caller.scope.org_id === org_id) void look(watched);
  });

  async function look(watched: Watched): Promise<void> {
    // A store that does not answer now is asked again later.
    const tools = await catalog.list(watched.caller).catch(() => watched.seen);
    if (tools === watched.seen) return;
    watched.seen = tools;
    const print = printOf(tools);
    if (print === watched.print) return;
    watched.print = print;
    for (const tell of watched.listeners) tell();
  }

  function arm(): void {
    timer ??= clock.after(LOOK_AGAIN_MS, () => {
      timer = null;
      for (const watched of scopes.values()) void look(watched);
      if (scopes.size > 0) arm();
    });
  }

  return {
    async listen(caller, changed) {
      const key = keyOf(caller);
      const seen = await catalog.list(caller);
      const watched = scopes.get(key) ?? { caller, seen, print: printOf(seen), listeners: new Set() };
      scopes.set(key, watched);
      const listener = () => changed();
      watched.listeners.add(listener);
      arm();
      return () => {
        watched.listeners.delete(listener);
        if (watched.listeners.size === 0 && scopes.get(key) === watched) scopes.delete(key);
      };
    },
    close() {
      stop();
      timer?.stop();
      scopes.clear();
    },
  };
}

function keyOf({ scope, role, delegation, actor }: Caller): string {
  const own = delegation === undefined ? role === "guest" : actor;
  return `${scope.org_id}\n${scope.project_id}\n${own}`;
}

function printOf(tools: readonly CatalogTool[]): string {
  return hash("sha256", JSON.stringify(tools));
}
