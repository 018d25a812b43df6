/**
 * Loads kernel plugins. Bundled plugins are the `@backplane/plugin-*` dependencies of this package and load like all
 * others. An inline plugin is imported into this process behind the network guard; it requires the operator's trust and
 * cannot be stopped. A hosted plugin runs in its own process, which `moduleHost` may start in a sandbox.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  BackplaneError,
  diskFault,
  type KernelPlugin,
  findKernelPluginProblem,
  type PluginEntry,
} from "@backplane/contract";
import type { Clock, LoadedPlugin, Logger, PluginLoader, PluginNetworkAccess } from "@backplane/ports";
import {
  type AddressCheck,
  createAddressCheck,
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
  type OutboundRules,
} from "@backplane/runner";
import { computeCodeDigest, createPluginSources, type PluginSourcesOptions } from "@backplane/supply";
import { createFolders } from "../home/home.ts";
import { importAgain } from "./import-again.ts";
import { createInlinePlugin, guardPlugin } from "./inline-plugin.ts";
import { installNetworkGuard } from "./network-guard.ts";

export interface PluginLoaderOptions {
  /** The gateway's home folder. */
  home: string;
  clock: Clock;
  log: Logger;
  /** Folders of bundled plugins, instead of the dependencies of this package. */
  bundled_roots?: readonly string[];
  npm?: PluginSourcesOptions["npm"];
  provenance?: PluginSourcesOptions["provenance"];
  timeouts?: ModuleHostOptions["timeouts"];
  /** Variables for hosted plugins, besides PATH, HOME, TMPDIR and LANG. */
  env?: Record<string, string>;
  /** Decides which addresses inline plugins may connect to; by default only public ones. */
  egress?: OutboundRules;
  /** Starts hosted plugins in the sandbox of the runner; by default they are plain processes. */
  moduleHost?: (options: ModuleHostOptions) => ModuleHost;
}

export interface ClosablePluginLoader extends PluginLoader {
  /** Stops every hosted plugin. */
  close(): Promise<void>;
}

const BUNDLED = "@backplane/plugin-";
const HOST = "@backplane/sdk/host";

export function createPluginLoader(options: PluginLoaderOptions): ClosablePluginLoader {
  const plugins_dir = join(options.home, "plugins");
  const bundled_roots = options.bundled_roots ?? findBundledRoots();
  const sources = createPluginSources({
    home_plugins_dir: plugins_dir,
    bundled_roots,
    ...(options.npm === undefined ? {} : { npm: options.npm }),
    ...(options.provenance === undefined ? {} : { provenance: options.provenance }),
  });
  const stateDir = (name: string): string => {
    const dir = join(plugins_dir, "state", name);
    try {
      createFolders(dir);
    } catch (error) {
      throw diskFault(error, "the gateway's home (plugins/state)") ?? error;
    }
    return dir;
  };
  let host: ModuleHost | null = null;
  const import_counts = new Map<string, number>();
  const check = createAddressCheck(options.egress);
  const moduleHost = (): ModuleHost => {
    host ??= (options.moduleHost ?? createModuleHost)({
      node: process.execPath,
      node_args: conditionArguments(process.execArgv),
      host_module: resolveHostModule(bundled_roots),
      clock: options.clock,
      log: options.log,
      home: stateDir,
      hidden_folders: [options.home],
      ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
      ...(options.env === undefined ? {} : { env: options.env }),
    });
    return host;
  };
  return {
    discover: () => sources.discover(),
    inspect: (source, operation) => sources.inspect(source, operation),
    install: (source, options, operation) => sources.install(source, options, operation),
    remove: (name) => sources.remove(name),
    async load(entry, mode, network) {
      // The digest is computed before the load, so that files that change meanwhile do not have the approved digest.
      // A module that cannot be read gets a random digest, so it is treated as changed.
      const digest =
        entry.origin === "bundled" ? undefined : await computeCodeDigest(entry.dir).catch(() => randomUUID());
      const loaded =
        mode === "inline"
          ? await loadInline(entry, { network, check, log: options.log }, import_counts)
          : await moduleHost().start(entry, network);
      return digest === undefined ? loaded : { ...loaded, digest };
    },
    stateDir,
    async close() {
      await host?.close();
    },
  };
}

async function loadInline(
  entry: PluginEntry,
  { network, check, log }: { network: PluginNetworkAccess; check: AddressCheck; log: Logger },
  import_counts: Map<string, number>,
): Promise<LoadedPlugin> {
  const guard = installNetworkGuard();
  const identity = createInlinePlugin(entry, network, check, log);
  const imported = await guard.enter(identity, () => importPlugin(entry, import_counts));
  const plugin = guardPlugin(imported, identity, guard);
  return { plugin, close: async () => {}, onExit: () => {} };
}

async function importPlugin(entry: PluginEntry, import_counts: Map<string, number>): Promise<KernelPlugin> {
  const { name } = entry;
  let exports: { plugin?: unknown; default?: { plugin?: unknown } };
  try {
    exports = (await importNewInstance(entry, import_counts)) as typeof exports;
  } catch (error) {
    throw toLoadError(name, error);
  }
  const plugin = exports.plugin ?? exports.default?.plugin;
  if (plugin === undefined) {
    throw new BackplaneError("plugin.invalid", `The module of ${name} does not export \`plugin\`.`);
  }
  const problem = findKernelPluginProblem(plugin, entry);
  if (problem === null) return plugin as KernelPlugin;
  throw new BackplaneError("plugin.invalid", `The plugin ${name} is not valid: ${problem}.`);
}

/** Imports a new instance each time, so that changed files are loaded and two loads share no state. */
async function importNewInstance(
  { module, dir, origin }: PluginEntry,
  import_counts: Map<string, number>,
): Promise<unknown> {
  // The real path, as in a hosted process, because imports are resolved relative to it.
  const file = realpathSync(module);
  const count = import_counts.get(file) ?? 0;
  if (origin !== "bundled" && count > 0) return await importAgain(file, realpathSync(dir));
  import_counts.set(file, count + 1);
  // Files of bundled plugins do not change while the gateway is running. A counter instead of a random value lets Node
  // reuse their compiled code at the next start.
  const instance = origin === "bundled" ? count : randomUUID();
  return await import(/* @vite-ignore */ `${pathToFileURL(file).href}?v=${instance}`);
}

/** Wraps an error of the module, with its message and its stack. */
function toLoadError(name: string, error: unknown): BackplaneError {
  const { message = String(error), stack } = error as Partial<Error>;
  const failure = new BackplaneError(
    "plugin.invalid",
    `The module of ${name} could not be loaded: ${message}`,
    { fix: "The stack trace contains the file and the line.", cause: error },
  );
  if (stack !== undefined) failure.stack = stack;
  return failure;
}

/** The bundled plugins that are installed; a distribution may omit some. */
function findBundledRoots(): string[] {
  const require = createRequire(import.meta.url);
  const manifest_file = new URL("../../package.json", import.meta.url);
  const { dependencies } = JSON.parse(readFileSync(manifest_file, "utf8")) as {
    dependencies: Record<string, string>;
  };
  return Object.keys(dependencies)
    .filter((name) => name.startsWith(BUNDLED))
    .flatMap((name) => {
      const module_folders = require.resolve.paths(name) ?? [];
      const dir = module_folders
        .map((folder) => join(folder, name))
        .find((folder) => existsSync(join(folder, "package.json")));
      return dir === undefined ? [] : [realpathSync(dir)];
    });
}

/**
 * Resolves the host module without importing it, because it runs in other processes. The module may also be found from
 * the bundled plugins, which depend on the SDK.
 */
function resolveHostModule(bundled_roots: readonly string[]): string {
  for (const from of [import.meta.url, ...bundled_roots.map((dir) => join(dir, "package.json"))]) {
    try {
      return createRequire(from).resolve(HOST);
    } catch {
      // Not found from here; the next location may have it.
    }
  }
  throw new BackplaneError("launch_failed", `${HOST} is not installed, so no plugin can run hosted.`, {
    fix: "Reinstall Backplane with all its packages.",
  });
}

/** Hosted plugins resolve imports with the same conditions as this process. */
function conditionArguments(execArgv: readonly string[]): string[] {
  const conditions: string[] = [];
  execArgv.forEach((argument, index) => {
    if (/^(?:--conditions|-C)=/.test(argument)) conditions.push(argument);
    else if (argument === "--conditions" || argument === "-C")
      conditions.push(`--conditions=${execArgv[index + 1]}`);
  });
  return conditions;
}
