/**
 * Brings kernel plugins to life: bundled ones are the `@backplane/plugin-*` dependencies of this package, and load by
 * the same path as everybody's. Inline is an import into this process, which only the operator's trust allows and
 * nothing can stop, with a guard around what it connects to; hosted is a process of its own, in the sandbox.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  BackplaneError,
  type KernelPlugin,
  kernelPluginProblem,
  type PluginEntry,
} from "@backplane/contract";
import type { Clock, LoadedPlugin, Logger, PluginLoader, PluginReach } from "@backplane/ports";
import {
  type AddressCheck,
  createAddressCheck,
  createModuleHost,
  type ModuleHost,
  type ModuleHostOptions,
  type OutboundRules,
} from "@backplane/runner";
import { codeDigest, createPluginSources, type PluginSourcesOptions } from "@backplane/supply";
import { makeFolders } from "../home/home.ts";
import { importAgain } from "./import-again.ts";
import { guardPlugin, inlinePlugin } from "./inline-plugin.ts";
import { installNetworkGuard } from "./network-guard.ts";

export interface PluginLoaderOptions {
  /** The gateway's home folder. */
  home: string;
  clock: Clock;
  log: Logger;
  /** Folders of the bundled packages, instead of this package's own dependencies. */
  bundled_roots?: readonly string[];
  npm?: PluginSourcesOptions["npm"];
  timeouts?: ModuleHostOptions["timeouts"];
  /** For hosted plugins, besides PATH, HOME, TMPDIR and LANG. */
  env?: Record<string, string>;
  /** Which addresses inline plugins may connect to; left out, public ones alone. */
  egress?: OutboundRules;
  /** The runner's, behind whose boundary hosted plugins run; absent: plain processes. */
  moduleHost?: (options: ModuleHostOptions) => ModuleHost;
}

export interface ClosablePluginLoader extends PluginLoader {
  /** Ends every hosted plugin. */
  close(): Promise<void>;
}

const BUNDLED = "@backplane/plugin-";
const HOST = "@backplane/sdk/host";

export function createPluginLoader(options: PluginLoaderOptions): ClosablePluginLoader {
  const plugins_dir = join(options.home, "plugins");
  const bundled_roots = options.bundled_roots ?? bundledRoots();
  const sources = createPluginSources({
    home_plugins_dir: plugins_dir,
    bundled_roots,
    ...(options.npm === undefined ? {} : { npm: options.npm }),
  });
  const stateDir = (name: string): string => {
    const dir = join(plugins_dir, "state", name);
    makeFolders(dir);
    return dir;
  };
  let host: ModuleHost | null = null;
  const imported = new Set<string>();
  const check = createAddressCheck(options.egress);
  const moduleHost = (): ModuleHost => {
    host ??= (options.moduleHost ?? createModuleHost)({
      node: process.execPath,
      node_args: conditionArguments(process.execArgv),
      host_module: hostModule(bundled_roots),
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
    inspect: (source) => sources.inspect(source),
    install: (source, how) => sources.install(source, how),
    remove: (name) => sources.remove(name),
    async load(entry, mode, reach) {
      // Before it is loaded: files that change meanwhile are then not those that a person said yes to.
      // What cannot be read is never the same.
      const digest =
        entry.origin === "bundled" ? undefined : await codeDigest(entry.dir).catch(() => randomUUID());
      const loaded =
        mode === "inline"
          ? await loadInline(entry, { reach, check, log: options.log }, imported)
          : await moduleHost().start(entry, reach);
      return digest === undefined ? loaded : { ...loaded, digest };
    },
    stateDir,
    async close() {
      await host?.close();
    },
  };
}

/** `before`: the modules that this process has imported already. */
async function loadInline(
  entry: PluginEntry,
  { reach, check, log }: { reach: PluginReach; check: AddressCheck; log: Logger },
  before: Set<string>,
): Promise<LoadedPlugin> {
  const guard = installNetworkGuard();
  const who = inlinePlugin(entry, reach, check, log);
  const imported = await guard.enter(who, () => importPlugin(entry, before));
  const plugin = guardPlugin(imported, who, guard);
  return { plugin, close: async () => {}, onExit: () => {} };
}

async function importPlugin(entry: PluginEntry, before: Set<string>): Promise<KernelPlugin> {
  const { name } = entry;
  let exports: { plugin?: unknown; default?: { plugin?: unknown } };
  try {
    exports = (await importFresh(entry, before)) as typeof exports;
  } catch (error) {
    throw asLoadFailure(name, error);
  }
  const plugin = exports.plugin ?? exports.default?.plugin;
  if (plugin === undefined) {
    throw new BackplaneError("plugin.invalid", `The module of ${name} exports no \`plugin\`.`);
  }
  const problem = kernelPluginProblem(plugin, entry);
  if (problem === null) return plugin as KernelPlugin;
  throw new BackplaneError("plugin.invalid", `The plugin ${name} is not valid: ${problem}.`);
}

/** A new module each time: changed files are read anew, and two loads share no state. */
async function importFresh({ module, dir, origin }: PluginEntry, before: Set<string>): Promise<unknown> {
  // Its real path, as a process of its own would see it: what it imports is looked for from there.
  const file = realpathSync(module);
  // The files of a bundled one do not change under a running gateway.
  if (origin !== "bundled" && before.has(file)) return await importAgain(file, realpathSync(dir));
  before.add(file);
  return await import(/* @vite-ignore */ `${pathToFileURL(file).href}?v=${randomUUID()}`);
}

/** The author's error as one of ours: its words in the message, its trace as the stack. */
function asLoadFailure(name: string, error: unknown): BackplaneError {
  const { message = String(error), stack } = error as Partial<Error>;
  const failure = new BackplaneError(
    "plugin.invalid",
    `The module of ${name} could not be loaded: ${message}`,
    { fix: "Read the trace: it names the file and the line.", cause: error },
  );
  if (stack !== undefined) failure.stack = stack;
  return failure;
}

/** Those of our dependencies that are there; a distribution may leave some out. */
function bundledRoots(): string[] {
  const require = createRequire(import.meta.url);
  const own = new URL("../../package.json", import.meta.url);
  const { dependencies } = JSON.parse(readFileSync(own, "utf8")) as { dependencies: Record<string, string> };
  return Object.keys(dependencies)
    .filter((name) => name.startsWith(BUNDLED))
    .flatMap((name) => {
      const places = require.resolve.paths(name) ?? [];
      const dir = places
        .map((place) => join(place, name))
        .find((one) => existsSync(join(one, "package.json")));
      return dir === undefined ? [] : [realpathSync(dir)];
    });
}

/** Found and not imported: the program is for other processes. Plugins bring the SDK, wherever npm has put it. */
function hostModule(bundled_roots: readonly string[]): string {
  for (const from of [import.meta.url, ...bundled_roots.map((dir) => join(dir, "package.json"))]) {
    try {
      return createRequire(from).resolve(HOST);
    } catch {
      // Looked for from the next one.
    }
  }
  throw new BackplaneError("launch_failed", `${HOST} is not installed, so no plugin can run hosted.`, {
    fix: "Install Backplane again: its packages belong together.",
  });
}

/** Hosted plugins resolve their imports under the conditions that this process runs with. */
function conditionArguments(execArgv: readonly string[]): string[] {
  const found: string[] = [];
  execArgv.forEach((argument, index) => {
    if (/^(?:--conditions|-C)=/.test(argument)) found.push(argument);
    else if (argument === "--conditions" || argument === "-C")
      found.push(`--conditions=${execArgv[index + 1]}`);
  });
  return found;
}
