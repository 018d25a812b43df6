/**
 * Runs npm: the one that belongs to this Node, else the one on the PATH. Without a shell, package scripts or git, with only
 * the environment variables that npm needs for its registry, and without access to any other host.
 */
import { spawn } from "node:child_process";
import { access, realpath } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { BackplaneError, type ErrorCode } from "@backplane/contract";
import { type NpmSettings, readNpmSettings } from "./npm-settings.ts";
import { startRegistryProxy } from "./registry-proxy.ts";

export interface Npm {
  /** Returns the standard output. Throws `NpmFailure` with npm's message, or `request.cancelled` after an abort. */
  run(args: readonly string[], cwd: string, watch?: NpmWatch): Promise<string>;
  settings(cwd: string): Promise<NpmSettings>;
  /** The path of npm's program. Throws if npm is not a program for Node. */
  cli(): Promise<string>;
}

export interface NpmWatch {
  /** Kills npm with all its processes. */
  signal?: AbortSignal;
  /** The bytes that this run has received from the registries so far. */
  received?: (bytes: number) => void;
}

export class NpmFailure extends BackplaneError {
  /** The output of npm, truncated. */
  readonly output: string;
  /** The URLs that npm tried to fetch from hosts other than the registries. */
  readonly refused: readonly string[];

  constructor(code: ErrorCode, message: string, output = "", refused: readonly string[] = []) {
    super(code, message);
    this.output = output;
    this.refused = refused;
  }
}

export interface NpmOptions {
  node?: string;
  env?: Readonly<Record<string, string | undefined>>;
  timeout_ms?: number;
}

const TIMEOUT_MS = 300_000;
const MAX_OUTPUT = 1024 * 1024;
/** How long a change of the operator's npm configuration may go unnoticed. */
const SETTINGS_MS = 60_000;
const KEPT_ENV =
  /^(?:HOME|USERPROFILE|APPDATA|LANG|TMPDIR|XDG_[A-Z_]+|(?:HTTPS?|NO)_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|NPM_CONFIG_.+|NPM_TOKEN)$/i;

/** Follow the subcommand. A user's configuration cannot override them. */
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

/** The notifier would ask the registry for the newest npm. */
const SETTINGS_FLAGS = ["--json", "--loglevel=error", "--no-update-notifier"] as const;

export function createNpm(options: NpmOptions = {}): Npm {
  const node = options.node ?? process.execPath;
  const env = options.env ?? process.env;
  const clean: Record<string, string> = { PATH: [dirname(node), env.PATH ?? ""].join(delimiter) };
  for (const [key, value] of Object.entries(env)) {
    if (value !== undefined && KEPT_ENV.test(key)) clean[key] = value;
  }
  const timeout_ms = options.timeout_ms ?? TIMEOUT_MS;
  const start = async (
    args: readonly string[],
    cwd: string,
    vars: Record<string, string>,
    signal?: AbortSignal,
  ) => {
    const [program, ...before] = await findNpm(node, env.PATH ?? "");
    return await runOnce(program!, [...before, ...args], { cwd, env: vars }, timeout_ms, signal);
  };
  let known: { settings: NpmSettings; at: number } | undefined;
  const settings = async (cwd: string): Promise<NpmSettings> => {
    if (known !== undefined && performance.now() - known.at < SETTINGS_MS) return known.settings;
    const read = readNpmSettings(await start(["config", "list", ...SETTINGS_FLAGS], cwd, clean));
    known = { settings: read, at: performance.now() };
    return read;
  };
  const direct = Object.fromEntries(Object.entries(clean).filter(([key]) => !/_proxy$/i.test(key)));
  return {
    settings,
    async cli() {
      const file = (await findNpm(node, env.PATH ?? "")).at(-1)!;
      if (file.endsWith(".js")) return file;
      throw new BackplaneError("plugin.install_failed", `${file} is not a program for Node.`, {
        fix: "Install npm from nodejs.org; install scripts run with its npm-cli.js.",
      });
    },
    async run([command, ...args], cwd, { signal, received } = {}) {
      const proxy = await startRegistryProxy({
        ...(await settings(cwd)),
        ...(received === undefined ? {} : { received }),
      });
      const flags = [`--proxy=${proxy.url}`, `--https-proxy=${proxy.url}`, "--noproxy="];
      try {
        return await start([command!, ...flags, ...args], cwd, direct, signal);
      } catch (error) {
        const [first] = proxy.refused;
        if (!(error instanceof NpmFailure) || first === undefined) throw error;
        const message = `npm tried to fetch ${first.slice(0, 200)}, which is not on a configured registry.`;
        throw new NpmFailure("package.dependency_refused", message, error.output, proxy.refused);
      } finally {
        await proxy.close();
      }
    },
  };
}

async function findNpm(node: string, path: string): Promise<string[]> {
  const home = dirname(await realpath(node));
  const own = [
    join(home, "..", "lib", "node_modules", "npm", "bin", "npm-cli.js"),
    join(home, "node_modules", "npm", "bin", "npm-cli.js"),
  ];
  for (const file of own) if (await exists(file)) return [node, file];
  for (const folder of path.split(delimiter)) {
    if (folder === "" || !(await exists(join(folder, "npm")))) continue;
    const file = await realpath(join(folder, "npm"));
    return file.endsWith(".js") ? [node, file] : [file];
  }
  throw new BackplaneError("plugin.install_failed", "There is no npm beside this Node or on the PATH.", {
    fix: "Install npm (it comes with Node from nodejs.org), or install the plugin from a local folder.",
  });
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}

function runOnce(
  program: string,
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
  timeout_ms: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new BackplaneError("request.cancelled"));
    const child = spawn(program, args, {
      cwd,
      env,
      shell: false,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const out = collect(child.stdout);
    const err = collect(child.stderr);
    let timed_out = false;
    const kill = () => {
      if (child.pid !== undefined) killGroup(child.pid);
    };
    const timer = setTimeout(() => {
      timed_out = true;
      kill();
    }, timeout_ms);
    signal?.addEventListener("abort", kill);
    const stopWatching = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
    };
    child.once("error", (error) => {
      stopWatching();
      reject(new NpmFailure("plugin.install_failed", `npm could not be started: ${error.message}`));
    });
    child.once("close", (code) => {
      stopWatching();
      if (code === 0) return resolve(out());
      if (signal?.aborted) return reject(new BackplaneError("request.cancelled"));
      const message = timed_out
        ? `npm did not finish within ${timeout_ms} ms.`
        : `npm failed: ${messageOf(err() || out())}`;
      reject(new NpmFailure("plugin.install_failed", message, err() || out()));
    });
  });
}

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    if (text.length < MAX_OUTPUT) text += chunk;
  });
  return () => text;
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

/** The error lines of npm without prefix, codes and the path of its log file. */
function messageOf(text: string): string {
  const lines = text
    .split("\n")
    .map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim())
    .filter(
      (line) => line !== "" && !/^(?:code|errno|syscall|path|A complete log of this run|\d{4}-)/.test(line),
    );
  const message = lines.slice(0, 4).join(" ");
  return message === "" ? "it gave no reason" : message.slice(0, 500);
}
