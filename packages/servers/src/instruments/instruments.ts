/**
 * The lifecycle of instrument plugins (instr.lifecycle, instr.admin): they are loaded in the order of their
 * dependencies when the gateway starts, loaded again when a dependency changes, and listed, checked, installed and
 * unloaded by admins. Loads at start, loads after a change and unloads are logged; the result of a load is in the
 * definitions of the binding.
 */

import {
  BackplaneError,
  type Binding,
  type CatalogEntry,
  type Definitions,
  definedFields,
  type InstrumentPluginView,
  type Package,
  type SourceInspection,
  toBackplaneError,
} from "@backplane/contract";
import { INSTRUMENT_COLLISION } from "@backplane/door";
import {
  type BoundPackage,
  type Caller,
  HOST_ADMIN,
  type InstrumentsFacade,
  type Kernel,
  type KernelDeps,
  type Scope,
} from "@backplane/ports";
import type { DefinitionsService, InstallChecked, Policies } from "@backplane/registry";
import {
  findDependencyProblem,
  findDependents,
  findReplacedFiles,
  type InspectedFile,
  sortForInstallation,
  sortForLoading,
} from "./dependencies.ts";
import { checkInstrumentHealth } from "./instrument-health.ts";
import { instrumentOf, readInstrumentPlugins } from "./instrument-plugins.ts";

interface InstrumentsService {
  facade: InstrumentsFacade;
  /** Loads the dependents of the instrument plugins among these bindings again after a change. Never throws. */
  reloadDependents(bindings: readonly Binding[]): Promise<void>;
  /**
   * Loads the plugins of every scope in the order of their dependencies until `isStopping` returns true. Never
   * throws.
   */
  loadAll(isStopping: () => boolean): Promise<void>;
}

type InstallOptions = NonNullable<Parameters<InstrumentsFacade["install"]>[2]>;

interface InstrumentsDeps {
  deps: KernelDeps;
  definitions: Pick<DefinitionsService, "describe">;
  inspect: Kernel["installations"]["inspect"];
  installChecked: InstallChecked;
  bindings: Kernel["bindings"];
  catalog: Pick<Kernel["catalog"], "listEntries">;
  policies: Pick<Policies, "getEffective">;
}

/** Returns a check that throws plugin.dependency when a plugin may not be loaded yet. */
export function createDependencyCheck({ store }: KernelDeps): (bound: BoundPackage) => Promise<void> {
  return async (bound) => {
    if (instrumentOf(bound) === null) return;
    const plugins = await readInstrumentPlugins(store.bindings, bound.binding.scope);
    const readDefinitions = ({ binding }: BoundPackage) =>
      store.definitions.get(binding.scope.org_id, binding.binding_id);
    const problem = await findDependencyProblem(bound, plugins, readDefinitions);
    if (problem !== null) throw problem;
  };
}

export function createInstruments({
  bindings,
  catalog,
  definitions,
  deps,
  inspect,
  installChecked,
  policies,
}: InstrumentsDeps): InstrumentsService {
  const { log, store } = deps;

  async function load(bound: BoundPackage): Promise<void> {
    const fields = { plugin: instrumentOf(bound)?.plugin_id, binding_id: bound.binding.binding_id };
    log.info(fields, "loading instrument plugin");
    const row = await definitions.describe(bound);
    if (row === null) return;
    logDefinitions(fields, row);
    if (row.error !== null) log.error({ ...fields, ...row.error }, "instrument plugin skipped");
  }

  function logDefinitions(fields: object, { error, exports, warnings }: Definitions): void {
    for (const warning of warnings) log.warn({ ...fields, warning }, "instrument plugin has a warning");
    if (error === null)
      log.info({ ...fields, instruments: exports.map(({ id }) => id) }, "instrument plugin loaded");
  }

  async function loadDependents(scope: Scope, plugin_id: string, visited = new Set<string>()): Promise<void> {
    // In a cycle every plugin depends on every other.
    if (visited.has(plugin_id)) return;
    visited.add(plugin_id);
    for (const bound of findDependents(await readInstrumentPlugins(store.bindings, scope), plugin_id)) {
      await load(bound);
      await loadDependents(scope, instrumentOf(bound)!.plugin_id, visited);
    }
  }

  async function reloadDependentsOf(binding: Binding): Promise<void> {
    try {
      const pack = await store.packages.find(
        binding.scope.org_id,
        binding.package_id,
        binding.package_version,
      );
      const info = pack === null ? null : (pack.manifest.runtime.instrument ?? null);
      if (info !== null) await loadDependents(binding.scope, info.plugin_id);
    } catch (error) {
      log.warn(
        { err: error, binding_id: binding.binding_id },
        "dependents of an instrument plugin could not be loaded again",
      );
    }
  }

  /**
   * Whether the installed version is bound for the whole org. A new version is then bound org-wide too, even when it
   * is installed from a project.
   */
  async function isBoundOrgWide(caller: Caller, { packages }: SourceInspection): Promise<boolean> {
    const plugins = await readInstrumentPlugins(store.bindings, caller.scope);
    const installed = [...plugins.values()].find(
      (plugin) => plugin.package.package_id === packages[0]?.package_id,
    );
    return installed !== undefined && installed.binding.scope.project_id === null;
  }

  async function view(bound: BoundPackage): Promise<InstrumentPluginView> {
    const { binding, package: pack } = bound;
    const row = await store.definitions.get(binding.scope.org_id, binding.binding_id);
    return toView(binding, pack, row);
  }

  async function viewAll(caller: Caller, plugins: readonly BoundPackage[]): Promise<InstrumentPluginView[]> {
    const views = await Promise.all(plugins.map(view));
    const rejected = (await catalog.listEntries(caller, { all: true })).filter(
      ({ status }) => status === "failed" || status === "skipped",
    );
    return views.map((plugin) => addLostNames(plugin, rejected));
  }

  async function viewOne(caller: Caller, bound: BoundPackage): Promise<InstrumentPluginView> {
    return (await viewAll(caller, [bound]))[0]!;
  }

  async function inspectFile(caller: Caller, path: string): Promise<InspectedFile> {
    return { path, inspection: await inspect(caller, { kind: "folder", path }) };
  }

  async function installPlugin(
    caller: Caller,
    { inspection, path }: InspectedFile,
    { class: chosen, config, keep_unloaded = false }: InstallOptions,
  ): Promise<BoundPackage> {
    const settings = definedFields({ config, policy: chosen && { class: chosen } });
    const org_wide = await isBoundOrgWide(caller, inspection);
    const { packages, bindings: installed_bindings } = await installChecked(
      caller,
      { kind: "folder", path },
      { bind: true, org_wide, ...settings },
      ([imported]) => requireInstrument(path, imported),
    );
    const { binding, change } = installed_bindings[0]!;
    const { package: pack } = packages[0]!;
    const must_enable = binding.status === "disabled" && !keep_unloaded;
    const new_settings: Partial<typeof settings> = change === "unchanged" ? settings : {};
    const changes_settings = must_enable || Object.keys(new_settings).length > 0;
    // Installing the same plugin again, as at every start, changes nothing and interrupts no calls.
    if (!changes_settings && change === "unchanged") return { binding, package: pack };
    const policy = { ...binding.policy, ...new_settings.policy };
    const changed = changes_settings
      ? await bindings.patch(
          caller,
          binding.binding_id,
          { ...new_settings, policy, ...(must_enable ? { status: "active" as const } : {}) },
          binding.generation,
        )
      : binding;
    const row = await store.definitions.get(binding.scope.org_id, binding.binding_id);
    const fields = { plugin: pack.manifest.runtime.instrument?.plugin_id, binding_id: binding.binding_id };
    if (row !== null && changed.status === "active") logDefinitions(fields, row);
    return { binding: changed, package: pack };
  }

  return {
    facade: {
      async list(caller) {
        requireAdmin(caller, "list plugins");
        const plugins = await readInstrumentPlugins(store.bindings, caller.scope);
        return await viewAll(caller, [...plugins.values()]);
      },
      async health(caller, options) {
        requireAdmin(caller, "check the health of plugins");
        const plugins = [...(await readInstrumentPlugins(store.bindings, caller.scope)).values()];
        const reports = plugins.map((bound) =>
          checkInstrumentHealth({ deps, policies }, caller.scope, bound, options),
        );
        return (await Promise.all(reports)).flat();
      },
      async install(caller, path, options = {}) {
        requireHostAdmin(caller);
        const installed = await installPlugin(caller, await inspectFile(caller, path), options);
        return await viewOne(caller, installed);
      },
      async *installAll(caller, paths, stop) {
        requireHostAdmin(caller);
        const files: InspectedFile[] = [];
        for (const path of paths) {
          if (stop.aborted) return;
          try {
            files.push(await inspectFile(caller, path));
          } catch (error) {
            yield { path, error: toBackplaneError(error) };
          }
        }
        const replaced = findReplacedFiles(files);
        for (const [{ path }, error] of replaced) yield { path, error };
        const skipped: { path: string; bound: BoundPackage }[] = [];
        for (const file of sortForInstallation(files.filter((each) => !replaced.has(each)))) {
          if (stop.aborted) return;
          const { path } = file;
          try {
            const bound = await installPlugin(caller, file, { keep_unloaded: true });
            const plugin = await viewOne(caller, bound);
            if (plugin.error === null) yield { path, plugin };
            else skipped.push({ path, bound });
          } catch (error) {
            yield { path, error: toBackplaneError(error) };
          }
        }
        for (const { path, bound } of skipped) yield { path, plugin: await viewOne(caller, bound) };
      },
      async unload(caller, plugin_id) {
        requireAdmin(caller, "unload plugins");
        const bound = (await readInstrumentPlugins(store.bindings, caller.scope)).get(plugin_id);
        if (bound === undefined)
          throw new BackplaneError("plugin.not_found", `Plugin ${plugin_id} is not loaded.`);
        const { binding_id, generation } = bound.binding;
        await bindings.patch(caller, binding_id, { status: "disabled" }, generation);
        log.info({ plugin: plugin_id, binding_id }, "instrument plugin unloaded");
      },
    },
    async reloadDependents(changed) {
      for (const binding of changed) await reloadDependentsOf(binding);
    },
    async loadAll(isStopping) {
      try {
        const plugins = (await store.bindings.listWholePackages()).filter(
          (bound) => instrumentOf(bound) !== null,
        );
        const scopes = new Map(plugins.map(({ binding: { scope } }) => [scopeKey(scope), scope]));
        // Org-wide plugins load first, because plugins of a project may depend on them.
        for (const [key, scope] of [...scopes].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
          for (const bound of sortForLoading(await readInstrumentPlugins(store.bindings, scope))) {
            if (isStopping()) return;
            if (scopeKey(bound.binding.scope) === key) await load(bound);
          }
        }
      } catch (error) {
        log.error({ err: error }, "instrument plugins could not be loaded");
      }
    },
  };
}

/** An admin key gives access to its org, not to the host's disk. */
function requireHostAdmin(caller: Caller): void {
  requireAdmin(caller, "install plugins");
  if (caller.actor !== HOST_ADMIN) throw new BackplaneError("package.source_forbidden");
}

function requireInstrument(path: string, imported: Package | undefined): void {
  if (imported?.manifest.runtime.instrument !== undefined) return;
  throw new BackplaneError("package.invalid", `${path} is not an instrument plugin.`, {
    fix: "Install other packages with: backplane plugin install",
  });
}

function scopeKey({ org_id, project_id }: Scope): string {
  return `${org_id}/${project_id ?? ""}`;
}

/**
 * Adds a warning for each name that another tool has taken (instr.collision). A name lost to a tool whose origin is
 * `plugin` is also an error; the other instruments of the plugin are still offered.
 */
function addLostNames(view: InstrumentPluginView, rejected: readonly CatalogEntry[]): InstrumentPluginView {
  const lost_names = rejected.filter(({ binding_id }) => binding_id === view.binding_id);
  const warnings = lost_names.map(({ name, reason }) => `${name} is not offered: ${reason}`);
  const with_warnings = { ...view, warnings: [...view.warnings, ...warnings] };
  const collided = lost_names.find(({ reason }) => reason?.startsWith(INSTRUMENT_COLLISION));
  if (view.error !== null || collided === undefined) return with_warnings;
  const { fix, reason } = collided;
  const error = { code: "tool.collision", message: reason!, ...(fix === null ? {} : { fix }) };
  return { ...with_warnings, state: "skipped", error };
}

function toView(
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

function requireAdmin(caller: Caller, action: string): void {
  if (caller.admin && caller.delegation === undefined) return;
  throw new BackplaneError("policy.denied", `Only an admin may ${action}.`);
}
