/**
 * A plugin system with a real bus and a real SQLite store. Plugins are plain objects, and "processes" can be
 * killed.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BackplaneError,
  type BusEvent,
  createIdSource,
  type Json,
  type KernelPlugin,
  type KernelToolCall,
  type PluginCategory,
  type PluginContext,
  type PluginEntry,
  type PluginOrigin,
} from "@backplane/contract";
import {
  Changes,
  type DiscoveredPlugins,
  type LoadedPlugin,
  type PluginLoader,
  type Scope,
  type Store,
} from "@backplane/ports";
import { createLiveConfig, type LiveConfig } from "@backplane/registry";
import { type Bus, createBus } from "@backplane/session";
import { createSecretVault, openSqliteStore } from "@backplane/store";
import { copyEmptyStore } from "@backplane/test-kit/empty-store";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { onTestFinished } from "vitest";
import type { BusLimits } from "../../../session/src/bus/bus-port.ts";
import { createPluginSystem } from "../../src/plugins/plugin-system.ts";
import type { KernelService, PluginSystem, PluginSystemDeps } from "../../src/plugins/plugins-port.ts";

export const scope: Scope = { org_id: "org_local", project_id: "proj_default" };

type PluginFactory = () => KernelPlugin;
interface AvailablePlugin {
  entry: PluginEntry;
  createPlugin: PluginFactory;
}

export class MemoryLoader implements PluginLoader {
  readonly available = new Map<string, AvailablePlugin[]>();
  readonly sources = new Map<string, AvailablePlugin[]>();
  readonly log: string[] = [];
  readonly #exits = new Map<string, (error: Error) => void>();

  add(createPlugin: PluginFactory, entry: Partial<PluginEntry> = {}): void {
    const available = createAvailable(createPlugin, entry);
    this.available.set(available.entry.name, [
      ...(this.available.get(available.entry.name) ?? []),
      available,
    ]);
  }

  /** Registers the plugin that `install(source)` will install. */
  offer(source: string, createPlugin: PluginFactory): void {
    this.sources.set(source, [createAvailable(createPlugin, { origin: "installed", source })]);
  }

  /** Simulates the exit of the plugin's process. */
  kill(name: string, message = "exit code 7"): void {
    this.#exits.get(name)!(new BackplaneError("crashed", message));
  }

  discover(): Promise<DiscoveredPlugins> {
    return Promise.resolve({
      entries: [...this.available.values()].map((all) => all.at(-1)!.entry),
      problems: [],
    });
  }

  load(entry: PluginEntry, mode: "inline" | "hosted"): Promise<LoadedPlugin> {
    this.log.push(`load ${entry.name} ${mode}`);
    const plugin = this.available.get(entry.name)!.at(-1)!.createPlugin();
    return Promise.resolve({
      plugin,
      close: () => {
        this.log.push(`close ${entry.name}`);
        return Promise.resolve();
      },
      onExit: (listener) => void this.#exits.set(entry.name, listener),
    });
  }

  inspect(source: string): Promise<PluginEntry[]> {
    return Promise.resolve(this.#find(source).map(({ entry }) => entry));
  }

  install(source: string): Promise<PluginEntry[]> {
    const entries = this.#find(source);
    for (const plugin of entries)
      this.available.set(plugin.entry.name, [...(this.available.get(plugin.entry.name) ?? []), plugin]);
    return Promise.resolve(entries.map(({ entry }) => entry));
  }

  remove(name: string): Promise<void> {
    const remaining = this.available.get(name)!.slice(0, -1);
    if (remaining.length === 0) this.available.delete(name);
    else this.available.set(name, remaining);
    return Promise.resolve();
  }

  stateDir(name: string): string {
    return `/data/plugins/${name}`;
  }

  #find(source: string): AvailablePlugin[] {
    const entries = this.sources.get(source);
    if (entries === undefined) throw new BackplaneError("plugin.source_invalid");
    return entries;
  }
}

function createAvailable(createPlugin: PluginFactory, entry: Partial<PluginEntry>): AvailablePlugin {
  const { name, version, category } = createPlugin();
  const defaults = {
    name,
    version,
    category,
    origin: "bundled" as PluginOrigin,
    source: `@backplane/plugin-${name}`,
  };
  return { createPlugin, entry: { ...defaults, dir: `/p/${name}`, module: `/p/${name}/index.js`, ...entry } };
}

export function plugin(
  name: string,
  category: PluginCategory,
  more: Partial<KernelPlugin> = {},
): KernelPlugin {
  return { name, version: "1.0.0", category, subscriptions: () => [], ...more };
}

export interface TestPlugins {
  system: PluginSystem;
  loader: MemoryLoader;
  bus: Bus;
  config: LiveConfig;
  store: Store;
  clock: TestClock;
  deps: PluginSystemDeps;
  services: Map<string, KernelService>;
  logged: { level: string; fields: object; message: string }[];
  /** Every event, in order. */
  events: BusEvent[];
  /** `kind name` of each plugin lifecycle event in the default org. */
  announced(): string[];
  status(name: string): string;
  set(values: Record<string, Json>, org_id?: string): Promise<void>;
  publish(kind: string, payload: object, session_id?: string, where?: Scope): Promise<BusEvent>;
}

export async function createTestPlugins(
  prepare: (loader: MemoryLoader) => void,
  options: Partial<PluginSystemDeps> & { limits?: Partial<BusLimits>; start?: boolean } = {},
): Promise<TestPlugins> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-plugins-"));
  const file = join(folder, "store.db");
  await copyEmptyStore(file);
  const store = await openSqliteStore({ file, threaded: false });
  const clock = new TestClock();
  const random = (bytes: Uint8Array) => void crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>);
  const ids = createIdSource(() => clock.now(), random);
  const logged: TestPlugins["logged"] = [];
  const log = createTestLogger((level, message, fields) => logged.push({ level, fields, message }));
  const vault = createSecretVault([{ id: "k1", key: new Uint8Array(32).fill(7) }]);
  const changes = new Changes(log);
  const config = createLiveConfig({ store, vault, clock }, changes);
  const bus = createBus({ clock, ids, log, ...(options.limits ? { limits: options.limits } : {}) });
  const events: BusEvent[] = [];
  const kernel = bus.kernel();
  kernel.subscribe("*", (event) => void events.push(event));
  const loader = new MemoryLoader();
  prepare(loader);
  const services = new Map<string, KernelService>();
  const deps: PluginSystemDeps = {
    bus,
    changes,
    loader,
    config,
    store,
    clock,
    ids,
    log,
    default_scope: scope,
    services: () => services,
    probe: (_caller, id) => Promise.resolve({ ok: true, latency_ms: 1, error: id }),
    ...options,
  };
  const system = createPluginSystem(deps);
  if (options.start !== false) await system.start();
  onTestFinished(async () => {
    await system.stop("test");
    bus.close();
    clock.halt();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    system,
    loader,
    bus,
    config,
    store,
    clock,
    deps,
    services,
    logged,
    events,
    announced: () =>
      events
        .filter(({ kind, org_id }) => kind.startsWith("plugin.") && org_id === scope.org_id)
        .map(({ kind, payload }) => `${kind} ${String(payload.name)}`),
    status: (name) => system.snapshot().find((state) => state.name === name)?.status ?? "unknown",
    set: async (values, org_id = scope.org_id) => void (await config.write(org_id, { set: values }, {})),
    publish: (kind, payload, session_id = "s1", where = scope) =>
      kernel.publish(kind, payload as never, { session_id, scope: where }),
  };
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** Waits until every event that is already on the bus is delivered. */
export async function drainBus(bus: Bus): Promise<void> {
  await until(() => bus.stats().queued === 0 && bus.stats().running === 0);
  await new Promise((resolve) => setImmediate(resolve));
}

/** Captures the context that a plugin receives in onLoad. */
export function captureContext(): { ctx: PluginContext; onLoad: (ctx: PluginContext) => void } {
  const holder = {
    ctx: null as unknown as PluginContext,
    onLoad: (ctx: PluginContext) => {
      holder.ctx = ctx;
    },
  };
  return holder;
}

export function createToolCall(more: Partial<KernelToolCall> = {}): KernelToolCall & { scope: Scope } {
  return {
    id: "call_1",
    invocation_id: "inv_1",
    session_id: "s1",
    deadline_at: new Date(0).toISOString(),
    signal: new AbortController().signal,
    as: "as_none",
    progress: () => {},
    scope,
    ...more,
  };
}

export async function codeOfRejected(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
  return "nothing was thrown";
}
