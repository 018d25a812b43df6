/**
 * The life of instrument plugins beside that of any package: loaded in the order of their dependencies when the gateway
 * starts, looked at again when one that they depend on changes, and listed, installed and unloaded at run time by the
 * admin (instr.lifecycle, instr.admin). Every step is in the log; what came of it is in the binding's definitions.
 */

import {
  BackplaneError,
  type Binding,
  type BindingPolicy,
  type CatalogEntry,
  type Definitions,
  type InstrumentPluginView,
  type JsonObject,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  HOST_ADMIN,
  type InstrumentsFacade,
  type Kernel,
  type KernelDeps,
  type Scope,
} from "@backplane/ports";
import type { DefinitionsService, Policies } from "@backplane/registry";
import { dependencyProblem, dependentsOf, loadOrder } from "./dependencies.ts";
import { checkInstruments } from "./instrument-health.ts";
import { instrumentOf, instrumentPlugins } from "./instrument-plugins.ts";

export interface InstrumentsService {
  facade: InstrumentsFacade;
  /** Loads again what depends on the instrument plugins among these bindings, after they changed; never throws. */
  reloadDependents(bindings: readonly Binding[]): Promise<void>;
  /** Those of every scope, in the order of their dependencies, until `stopping` says so; never throws. */
  loadAll(stopping: () => boolean): Promise<void>;
}

interface InstrumentsParts {
  deps: KernelDeps;
  definitions: Pick<DefinitionsService, "describe">;
  packages: Pick<Kernel["packages"], "install" | "remove">;
  bindings: Kernel["bindings"];
  catalog: Pick<Kernel["catalog"], "entries">;
  policies: Pick<Policies, "of">;
}

/** For definitions: throws plugin.dependency before a plugin is asked that may not load yet. */
export function createDependencyCheck({ store }: KernelDeps): (bound: BoundPackage) => Promise<void> {
  return async (bound) => {
    if (instrumentOf(bound) === null) return;
    const plugins = await instrumentPlugins(store.bindings, bound.binding.scope);
    const loaded = ({ binding }: BoundPackage) =>
      store.definitions.get(binding.scope.org_id, binding.binding_id);
    const problem = await dependencyProblem(bound, plugins, loaded);
    if (problem !== null) throw problem;
  };
}

export function createInstruments({
  bindings,
  catalog,
  definitions,
  deps,
  policies,
  packages,
}: InstrumentsParts): InstrumentsService {
  const { log, store } = deps;

  async function load(bound: BoundPackage): Promise<void> {
    const about = { plugin: instrumentOf(bound)?.plugin_id, binding_id: bound.binding.binding_id };
    log.info(about, "an instrument plugin is loaded");
    const row = await definitions.describe(bound);
    if (row === null) return;
    for (const warning of row.warnings) log.warn({ ...about, warning }, "an instrument plugin looks wrong");
    if (row.error === null) {
      log.info(
        { ...about, instruments: row.exports.map(({ id }) => id) },
        "an instrument plugin is registered",
      );
    } else log.error({ ...about, ...row.error }, "an instrument plugin is skipped");
  }

  async function reload(scope: Scope, plugin_id: string, seen = new Set<string>()): Promise<void> {
    // In a circle everybody depends on everybody.
    if (seen.has(plugin_id)) return;
    seen.add(plugin_id);
    for (const bound of dependentsOf(await instrumentPlugins(store.bindings, scope), plugin_id)) {
      await load(bound);
      await reload(scope, instrumentOf(bound)!.plugin_id, seen);
    }
  }

  async function after(binding: Binding): Promise<void> {
    try {
      const pack = await store.packages.find(
        binding.scope.org_id,
        binding.package_id,
        binding.package_version,
      );
      const info = pack === null ? null : (pack.manifest.runtime.instrument ?? null);
      if (info !== null) await reload(binding.scope, info.plugin_id);
    } catch (error) {
      log.warn({ err: error, binding_id: binding.binding_id }, "what depends on a plugin was not looked at");
    }
  }

  /** Another version first, then the class: a policy that came with the version would replace the rules of the binding. */
  async function change(
    caller: Caller,
    { binding_id }: Binding,
    package_version: string,
    { policy, ...config }: { policy: Pick<BindingPolicy, "class">; config?: JsonObject },
  ): Promise<Binding> {
    const moved = await bindings.patch(caller, binding_id, { package_version, ...config }, undefined);
    if (policy.class === undefined) return moved;
    const rules = { ...moved.policy, ...policy };
    return await bindings.patch(caller, binding_id, { policy: rules }, moved.generation);
  }

  async function view(bound: BoundPackage): Promise<InstrumentPluginView> {
    const { binding, package: pack } = bound;
    const row = await store.definitions.get(binding.scope.org_id, binding.binding_id);
    return viewOf(binding, pack, row);
  }

  return {
    facade: {
      async list(caller) {
        requireAdmin(caller, "list plugins");
        const plugins = await instrumentPlugins(store.bindings, caller.scope);
        const views = await Promise.all([...plugins.values()].map(view));
        const lost = (await catalog.entries(caller, { all: true })).filter(
          ({ status }) => status === "failed" || status === "skipped",
        );
        return views.map((one) => withLost(one, lost));
      },
      async health(caller, question) {
        requireAdmin(caller, "ask plugins for their health");
        const plugins = [...(await instrumentPlugins(store.bindings, caller.scope)).values()];
        const asked = plugins.map((bound) =>
          checkInstruments({ deps, policies }, caller.scope, bound, question),
        );
        return (await Promise.all(asked)).flat();
      },
      async install(caller, path, options = {}) {
        requireAdmin(caller, "install plugins");
        // An admin key rules its org, not the host's disk.
        if (caller.actor !== HOST_ADMIN) throw new BackplaneError("package.source_forbidden");
        const { package: pack, created } = await packages.install(caller, { kind: "folder", path });
        const info = pack.manifest.runtime.instrument;
        if (info === undefined) {
          if (created) await packages.remove(caller, pack.id);
          throw new BackplaneError("package.invalid", `${path} is no instrument plugin`, {
            fix: "Install other packages with backplane plugin install.",
          });
        }
        const { package_id, version } = pack;
        const before = (await instrumentPlugins(store.bindings, caller.scope)).get(info.plugin_id);
        const same = before !== undefined && before.package.digest === pack.digest;
        // Found again at every start: nothing is changed, and nobody is disturbed.
        if (same && options.class === undefined && options.config === undefined) return await view(before);
        const chosen = options.class === undefined ? {} : { class: options.class };
        const config = options.config === undefined ? {} : { config: options.config };
        const binding =
          before === undefined
            ? await bindings.create(caller, {
                package_id,
                package_version: version,
                export_id: WHOLE_PACKAGE,
                ...config,
                ...(options.class === undefined ? {} : { policy: chosen }),
              })
            : await change(caller, before.binding, version, { ...config, policy: chosen });
        return await view({ binding, package: pack });
      },
      async unload(caller, plugin_id) {
        requireAdmin(caller, "unload plugins");
        const bound = (await instrumentPlugins(store.bindings, caller.scope)).get(plugin_id);
        if (bound === undefined)
          throw new BackplaneError("plugin.not_found", `no plugin ${plugin_id} is loaded here`);
        await bindings.remove(caller, bound.binding.binding_id);
        log.info(
          { plugin: plugin_id, binding_id: bound.binding.binding_id },
          "an instrument plugin is unloaded",
        );
      },
    },
    async reloadDependents(changed) {
      for (const binding of changed) await after(binding);
    },
    async loadAll(stopping) {
      try {
        const all = (await store.bindings.whole()).filter((bound) => instrumentOf(bound) !== null);
        const scopes = new Map(all.map(({ binding: { scope } }) => [scopeKey(scope), scope]));
        // Those of a whole org first: what is bound in a project may depend on them.
        for (const [key, scope] of [...scopes].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
          for (const bound of loadOrder(await instrumentPlugins(store.bindings, scope))) {
            if (stopping()) return;
            if (scopeKey(bound.binding.scope) === key) await load(bound);
          }
        }
      } catch (error) {
        log.error({ err: error }, "instrument plugins were not loaded");
      }
    },
  };
}

function scopeKey({ org_id, project_id }: Scope): string {
  return `${org_id}/${project_id ?? ""}`;
}

/** A plugin that runs may still have lost names to others (instr.collision). */
function withLost(view: InstrumentPluginView, lost: readonly CatalogEntry[]): InstrumentPluginView {
  const own = lost.filter(({ binding_id }) => binding_id === view.binding_id);
  const warnings = own.map(({ name, reason }) => `${name} is not offered: ${reason}`);
  return { ...view, warnings: [...view.warnings, ...warnings] };
}

function viewOf(
  binding: Binding,
  { manifest, package_id, version }: BoundPackage["package"],
  row: Definitions | null,
): InstrumentPluginView {
  const { author, dependencies, isolation, plugin_id } = manifest.runtime.instrument!;
  const error = row?.error ?? null;
  return {
    plugin_id,
    name: manifest.name,
    version,
    author,
    isolation,
    dependencies: [...dependencies],
    package_id,
    binding_id: binding.binding_id,
    class: binding.policy.class ?? "isolated",
    state: row === null ? "discovered" : error === null ? "running" : "skipped",
    error,
    warnings: row?.warnings ?? [],
    instruments: (row?.exports ?? []).map(({ description = "", id, tool }) => ({
      name: id,
      description,
      origin: `plugin:${plugin_id}`,
      risk: tool.risk ?? "unknown",
      category: tool.category ?? null,
    })),
  };
}

function requireAdmin(caller: Caller, what: string): void {
  if (caller.admin && caller.delegation === undefined) return;
  throw new BackplaneError("policy.denied", `only an admin may ${what}`);
}
