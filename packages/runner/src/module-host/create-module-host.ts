/**
 * Runs kernel plugins in their own processes (plug.trust): in the sandbox (sandbox.class), with a minimal
 * environment, killed with all descendants, and never outliving the gateway. `start` resolves when the module is
 * imported and checked. A module that hangs is killed, and errors quote stderr.
 */
import { homedir } from "node:os";
import { BackplaneError, type KernelToolCall, type PluginEntry } from "@backplane/contract";
import type { Clock, LoadedPlugin, Logger, PluginNetworkAccess } from "@backplane/ports";
import type { Refusal } from "../egress/destinations/refusals.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMEOUTS, PLUGIN_PATH, type RunnerLimits } from "../ports/settings.ts";
import { PluginProcess, type ProcessDeps } from "../processes/plugin-process.ts";
import { describeStderr } from "../programs/describe-stderr.ts";
import type { ExitStatus, LaunchEnvironment } from "../programs/diagnose-launch.ts";
import { exceededLimit } from "../sandbox/exit-cause.ts";
import { ProcessTrees } from "../supervision/process-trees.ts";
import { Watchdog } from "../supervision/watchdog.ts";
import { Deadlines } from "../time/deadlines.ts";
import { answerPlugin } from "./answer-plugin.ts";
import { type HostProgram, readHostProgram } from "./host-program.ts";
import { LiveContexts } from "./live-contexts.ts";
import { createModuleDialect, type ModuleSession } from "./module-session.ts";
import { type ProxyContext, proxyPlugin, proxyTool } from "./plugin-proxy.ts";
import {
  type HostBoundary,
  type PreparedPlugin,
  type PrepareOptions,
  preparePlugin,
} from "./prepare-plugin.ts";
import { ReceivedSecrets } from "./received-secrets.ts";

export interface ModuleHostTimeouts {
  /** Limits the start of the process, and then the import of the module. */
  load_ms: number;
  on_load_ms: number;
  unload_ms: number;
  /** The time from closing the pipe to the kill. */
  stop_ms: number;
}

export interface ModuleHostOptions {
  /** The Node binary that runs the plugins. */
  node: string;
  /** Absolute path of the module host program. */
  host_module: string;
  /** Arguments for Node itself, such as `--conditions=…`. */
  node_args?: readonly string[];
  clock: Clock;
  log: Logger;
  timeouts?: Partial<ModuleHostTimeouts>;
  limits?: Partial<Pick<RunnerLimits, "frame_bytes" | "queued_bytes" | "stderr_bytes">> & {
    contexts?: number;
  };
  /** Variables besides PATH, HOME, TMPDIR and LANG. */
  env?: Record<string, string>;
  /** The plugin's own folder, which is its home; null if it has none. */
  home?(name: string): string | null;
  /** Folders that are hidden from every plugin, even within its own folder. */
  hidden_folders?: readonly string[];
}

export interface ModuleHost {
  start(entry: PluginEntry, network: PluginNetworkAccess): Promise<LoadedPlugin>;
  /** Stops all processes. */
  close(): Promise<void>;
}

const TIMEOUTS: ModuleHostTimeouts = {
  load_ms: 30_000,
  on_load_ms: 30_000,
  unload_ms: 5_000,
  stop_ms: 2_000,
};
/** A conversation of a million tokens is sent as one event. */
const FRAME_BYTES = 8 * 1024 * 1024;
const CONTEXTS = 5_000;
const TRACE_BYTES = 8_192;
/** Logged refusals per process; an attacker can cause any number. */
const LOGGED_REFUSALS = 64;

/** Without `boundary`, as in tests, plugins run as plain processes. */
export function createModuleHost(
  options: ModuleHostOptions,
  boundary: HostBoundary | null = null,
): ModuleHost {
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const { contexts = CONTEXTS, ...limits } = options.limits ?? {};
  const watchdog = new Watchdog(options.log);
  const trees = new ProcessTrees(options.log);
  const environment: LaunchEnvironment = {
    interpreters: { path: PLUGIN_PATH, node: options.node },
    host_paths: { home: homedir(), path: "" },
    machine: { os: process.platform, arch: process.arch },
  };
  const deps: ProcessDeps = {
    host: { name: "backplane", version: "" },
    timeouts: { ...DEFAULT_TIMEOUTS, start_ms: timeouts.load_ms },
    limits: { ...DEFAULT_LIMITS, frame_bytes: FRAME_BYTES, ...limits },
    deadlines: new Deadlines(options.clock),
    watchdog,
    trees,
    environment,
    log: options.log,
  };
  const running = new Set<HostedPlugin>();
  let program: HostProgram | null = null;
  const parts: PrepareOptions = {
    boundary,
    host_module: options.host_module,
    host_program: () => (program ??= readHostProgram(options.host_module)),
    node_args: options.node_args ?? [],
    frame_bytes: deps.limits.frame_bytes,
    env: options.env ?? {},
    state: (name) => options.home?.(name) ?? null,
    hidden_folders: options.hidden_folders ?? [],
  };
  let closed = false;

  return {
    async start(entry, network) {
      const secrets = new ReceivedSecrets();
      const refused = createRefusalLogger(options.log, entry.name, secrets);
      const prepared = await preparePlugin(parts, entry, network, refused);
      if (closed) {
        await prepared.cleanUp();
        throw new BackplaneError("gateway_stopping");
      }
      const live = new LiveContexts(contexts, prepared.state_dir);
      const hosted = new HostedPlugin({ deps, timeouts, contexts: live, entry, prepared, secrets });
      running.add(hosted);
      void hosted.gone.then(() => running.delete(hosted));
      return await hosted.waitUntilLoaded();
    },
    async close() {
      closed = true;
      await Promise.all([...running].map((hosted) => hosted.close()));
      await watchdog.close();
      await trees.close();
    },
  };
}

/**
 * Connections of a kernel plugin do not belong to a call, so refused ones are logged. A `net.fetch` that passes the
 * `as` of a call is recorded with that call.
 */
function createRefusalLogger(
  log: Logger,
  plugin: string,
  secrets: ReceivedSecrets,
): (refusal: Refusal) => void {
  let remaining = LOGGED_REFUSALS;
  return ({ host, port, reason }) => {
    if (remaining-- <= 0) return;
    log.warn({ plugin, host: secrets.redact(host), port, reason }, "refused a connection of a plugin");
  };
}

interface HostedPluginOptions {
  deps: ProcessDeps;
  timeouts: ModuleHostTimeouts;
  contexts: LiveContexts;
  entry: PluginEntry;
  prepared: PreparedPlugin;
  secrets: ReceivedSecrets;
}

class HostedPlugin {
  readonly process: PluginProcess;
  /** Resolves when the process has exited and its resources are released. */
  readonly gone: Promise<void>;
  readonly #entry: PluginEntry;
  readonly #deps: ProcessDeps;
  readonly #timeouts: ModuleHostTimeouts;
  readonly #secrets: ReceivedSecrets;
  readonly #prepared: PreparedPlugin;
  readonly #parts: ProxyContext;
  #session: ModuleSession | null = null;
  #last_call = 0;
  /** Set when the gateway stops the process, so that its exit is not reported. */
  #ending = false;

  constructor({ contexts, deps, entry, secrets, timeouts, prepared }: HostedPluginOptions) {
    this.#deps = deps;
    this.#timeouts = timeouts;
    this.#entry = entry;
    this.#secrets = secrets;
    this.#prepared = prepared;
    const calls = new Map<number, KernelToolCall>();
    const parts: ProxyContext = {
      entry,
      contexts,
      calls,
      nextCall: () => ++this.#last_call,
      session: () => this.#startRequest(),
      alive: () => this.process.state === "ready",
      explainFailure: (answer) => this.#explainFailure(answer),
      within: (ms, label, answer) => this.#within(ms, label, answer),
      timeouts,
    };
    this.#parts = parts;
    const answer = answerPlugin({
      contexts,
      secrets: this.#secrets,
      calls,
      proxyTool: (id, spec, methods) => proxyTool(parts, id, spec, methods),
    });
    const dialect = createModuleDialect(
      {
        entry,
        module: prepared.module,
        load_ms: timeouts.load_ms,
        answer,
        toHostPaths: (text) => prepared.toHostPaths(text),
        describeStderr: () => this.#describeStderr(),
      },
      (session) => {
        this.#session = session;
      },
    );
    this.process = new PluginProcess(deps, {
      dialect,
      package: { package_id: entry.name, version: entry.version },
      prepare: async () => prepared.plan,
      request: null,
      notify: () => {},
      reportViolation: () => {},
    });
    this.gone = this.process.gone.then(() => prepared.cleanUp());
  }

  async waitUntilLoaded(): Promise<LoadedPlugin> {
    const { process } = this;
    await process.ready;
    try {
      const plugin = proxyPlugin(this.#parts, this.#session!.description!);
      return {
        plugin,
        close: () => this.close(),
        onExit: (listener) =>
          void process.gone.then(() => {
            if (!this.#ending) listener(this.#exitError());
          }),
      };
    } catch (error) {
      process.kill("it does not match its package.json");
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#ending = true;
    this.process.stop(this.#timeouts.stop_ms, "the plugin was unloaded");
    await this.gone;
  }

  /** Resets the egress counts for each request, as for each call of a binding. */
  #startRequest(): ModuleSession {
    this.process.confined?.egress?.resetCounts();
    return this.#session!;
  }

  async #explainFailure<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      // Decided by the pipe and not by the error code, because a plugin can throw any code.
      if (this.process.failure === null) throw error;
      await this.process.gone;
      throw this.#exitError();
    }
  }

  #within<T>(ms: number, label: string, answer: Promise<T>): Promise<T> {
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const { deadlines } = this.#deps;
    const deadline = deadlines.set(ms, () => {
      const message = `${this.#entry.name} did not finish ${label} within ${ms} ms, so its process was killed.${this.#describeStderr()}`;
      reject(new BackplaneError("launch_failed", message));
      this.#ending = true;
      this.process.kill(`it did not finish ${label} in time`);
    });
    return Promise.race([answer, timeout]).finally(() => deadlines.clear(deadline));
  }

  /** The stack of an uncaught error is on stderr; it becomes the stack of this error. */
  #exitError(): BackplaneError {
    const { exit, failure, kill_reason } = this.process;
    const reason = kill_reason === null ? describeExit(exit) : `was stopped because ${kill_reason}`;
    const limit = exceededLimit(this.process.exitCause);
    const cause = limit === null ? "" : ` ${limit.message}`;
    const error = new BackplaneError(
      // Any other failure of the stream is reported as a crash, because the process exits with it.
      failure?.code === "malformed_response" ? failure.code : "crashed",
      `The process of ${this.#entry.name} ${reason}.${cause}${this.#describeStderr()}`,
    );
    const trace = this.#secrets.redact(this.#stderr()).trim();
    if (trace !== "") error.stack = `${error.name}: ${error.message}\n${trace}`;
    return error;
  }

  #stderr(): string {
    return this.#prepared.toHostPaths(this.process.stderr.since(0, TRACE_BYTES).toString("utf8"));
  }

  #describeStderr(): string {
    const errors = describeStderr(this.#stderr());
    return errors === null ? "" : ` ${this.#secrets.redact(errors)}`;
  }
}

function describeExit(exit: ExitStatus | null): string {
  if (exit?.signal) return `was killed by ${exit.signal}`;
  return `exited with code ${exit?.code ?? "unknown"}`;
}
