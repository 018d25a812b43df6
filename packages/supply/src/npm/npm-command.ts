/**
 * Runs npm: the one that belongs to this Node, otherwise the one on the PATH. It runs without a shell, package scripts
 * or git, with only the environment variables that it needs for its registry, and without access to any other host.
 */
import { access, realpath } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { startRegistryProxy } from "../registries/registry-proxy.ts";
import { NpmFailure, type NpmProcess, prepareNpm, runNpm, type VetTree } from "./npm-process.ts";
import { type NpmSettings, readNpmSettings } from "./npm-settings.ts";

export interface Npm {
  /** Returns the standard output. Throws `NpmFailure` with npm's message, or `request.cancelled` after an abort. */
  run(args: readonly string[], cwd: string, watch?: NpmWatch): Promise<string>;
  /**
   * Runs `npm install` and has the resolved tree vetted before its files are fetched. Returns false, without doing
   * anything, if this npm cannot be paused.
   */
  install(args: readonly string[], cwd: string, vet: VetTree, watch?: NpmWatch): Promise<boolean>;
  readSettings(cwd: string): Promise<NpmSettings>;
  /** Returns the path of npm's program. Throws if npm is not a program for Node. */
  findCli(): Promise<string>;
}

/** Options of one run of npm. */
export interface NpmWatch {
  /** Kills npm with all its processes. */
  signal?: AbortSignal;
  /** Called with the number of bytes that npm has received from the registries so far. */
  onReceived?: (bytes: number) => void;
}

export interface NpmOptions {
  node?: string;
  env?: Readonly<Record<string, string | undefined>>;
  timeout_ms?: number;
}

const TIMEOUT_MS = 300_000;
/** How long a change to the operator's npm configuration may go unnoticed. */
const SETTINGS_MS = 60_000;
const KEPT_ENV =
  /^(?:HOME|USERPROFILE|APPDATA|LANG|TMPDIR|XDG_[A-Z_]+|(?:HTTPS?|NO)_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|NPM_CONFIG_.+|NPM_TOKEN)$/i;

/** These flags follow the subcommand. A user's configuration cannot override them. */
export const NPM_FLAGS = [
  "--ignore-scripts",
  "--no-audit",
  "--no-fund",
  "--no-update-notifier",
  "--no-progress",
  "--allow-git=none",
  // For versions of npm without the flag above: there is no git with this name.
  "--git=git-is-disabled",
  "--global=false",
  "--loglevel=error",
] as const;

/** The notifier would query the registry for the newest npm. */
const SETTINGS_FLAGS = ["--json", "--loglevel=error", "--no-update-notifier"] as const;

export function createNpm(options: NpmOptions = {}): Npm {
  const node = options.node ?? process.execPath;
  const env = options.env ?? process.env;
  const npm_env: Record<string, string> = { PATH: [dirname(node), env.PATH ?? ""].join(delimiter) };
  for (const [key, value] of Object.entries(env)) {
    if (value !== undefined && KEPT_ENV.test(key)) npm_env[key] = value;
  }
  const timeout_ms = options.timeout_ms ?? TIMEOUT_MS;
  const findCommand = () => findNpm(node, env.PATH ?? "");
  let cached: { settings: NpmSettings; at: number } | undefined;
  const readSettings = async (cwd: string): Promise<NpmSettings> => {
    if (cached !== undefined && performance.now() - cached.at < SETTINGS_MS) return cached.settings;
    const list = ["config", "list", ...SETTINGS_FLAGS];
    const read = readNpmSettings(await runNpm(await findCommand(), list, { cwd, env: npm_env }, timeout_ms));
    cached = { settings: read, at: performance.now() };
    return read;
  };
  const env_without_proxy = Object.fromEntries(
    Object.entries(npm_env).filter(([key]) => !/_proxy$/i.test(key)),
  );
  /** `work` gets a process of npm and the flags that it must have. */
  const runBehindProxy = async <T>(
    cwd: string,
    { onReceived }: NpmWatch,
    work: (npm: NpmProcess, flags: readonly string[]) => Promise<T>,
  ): Promise<T> => {
    // npm loads while the settings are read.
    const starting = findCommand().then((command) => prepareNpm(command, { cwd, env: env_without_proxy }));
    starting.catch(() => {});
    try {
      const proxy = await startRegistryProxy({
        ...(await readSettings(cwd)),
        ...(onReceived === undefined ? {} : { onReceived }),
      });
      const flags = [`--proxy=${proxy.url}`, `--https-proxy=${proxy.url}`, "--noproxy="];
      try {
        return await work(await starting, flags);
      } catch (error) {
        const [first] = proxy.refused;
        if (!(error instanceof NpmFailure) || first === undefined) throw error;
        const message = `npm tried to fetch ${first.slice(0, 200)}, which is not on a configured registry.`;
        const { output, unresolved } = error;
        throw new NpmFailure("package.dependency_refused", message, {
          output,
          refused: proxy.refused,
          unresolved,
        });
      } finally {
        await proxy.close();
      }
    } finally {
      void starting.then((npm) => npm.discard()).catch(() => {});
    }
  };
  return {
    readSettings,
    async findCli() {
      const file = (await findCommand()).at(-1)!;
      if (file.endsWith(".js")) return file;
      throw new BackplaneError("plugin.install_failed", `${file} is not a program for Node.`, {
        fix: "Install npm from nodejs.org; install scripts run with its npm-cli.js.",
      });
    },
    run: ([command, ...args], cwd, watch = {}) =>
      runBehindProxy(cwd, watch, (npm, flags) =>
        npm.run([command!, ...flags, ...args], { timeout_ms, signal: watch.signal }),
      ),
    install: (args, cwd, vet, watch = {}) =>
      runBehindProxy(cwd, watch, (npm, flags) =>
        npm.install(["install", ...flags, ...args], vet, { timeout_ms, signal: watch.signal }),
      ),
  };
}

async function findNpm(node: string, path: string): Promise<string[]> {
  const home = dirname(await realpath(node));
  const bundled_paths = [
    join(home, "..", "lib", "node_modules", "npm", "bin", "npm-cli.js"),
    join(home, "node_modules", "npm", "bin", "npm-cli.js"),
  ];
  for (const file of bundled_paths) if (await exists(file)) return [node, file];
  for (const folder of path.split(delimiter)) {
    if (folder === "" || !(await exists(join(folder, "npm")))) continue;
    const file = await realpath(join(folder, "npm"));
    return file.endsWith(".js") ? [node, file] : [file];
  }
  throw new BackplaneError("plugin.install_failed", "There is no npm next to this Node or on the PATH.", {
    fix: "Install npm (it comes with Node from nodejs.org), or install the plugin from a local folder.",
  });
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}
