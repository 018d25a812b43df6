/**
 * Kernel plugins in processes of their own (plug.trust): no shell, an environment made from nothing, killed as a
 * group, and gone with the gateway. `start` resolves once the module is imported and checked; a module that hangs
 * is killed, and every failure carries what the process last wrote to stderr.
 */
import { homedir } from "node:os";
import { BackplaneError, type KernelToolCall, type PluginEntry } from "@backplane/contract";
import type { Clock, LoadedPlugin, Logger } from "@backplane/kernel/ports";
import { Deadlines } from "../deadlines.ts";
import { type ExitStatus, lastWords, type Place } from "../diagnose.ts";
import type { LaunchPlan } from "../launch.ts";
import { type ProcessDeps, PluginProcess } from "../plugin-process.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMEOUTS, PLUGIN_PATH, type RunnerLimits } from "../settings.ts";
import { Watchdog } from "../watchdog.ts";
import { answerPlugin } from "./answer-plugin.ts";
import { LiveContexts } from "./live-contexts.ts";
import { type ModuleSession, moduleDialect } from "./module-session.ts";
import { SeenSecrets } from "./seen-secrets.ts";
import { type StandInParts, standInPlugin, standInTool } from "./stand-in.ts";

export interface ModuleHostTimeouts {
  /** From the start of the process to the end of the module's import. */
  load_ms: number;
  on_load_ms: number;
  unload_ms: number;
  /** From the closed pipe to the kill. */
  stop_ms: number;
}

export interface ModuleHostOptions {
  /** The Node that runs the plugins. */
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
  /** Everything beyond PATH, HOME, TMPDIR and LANG that a plugin's process sees. */
  env?: Record<string, string>;
  /** HOME and TMPDIR of a plugin; null for none. */
  home?(name: string): string | null;
}

export interface ModuleHost {
  start(entry: PluginEntry): Promise<LoadedPlugin>;
  /** Ends every process. */
  close(): Promise<void>;
}

const TIMEOUTS: ModuleHostTimeouts = {
  load_ms: 30_000,
  on_load_ms: 30_000,
  unload_ms: 5_000,
  stop_ms: 2_000,
};
/** A conversation of a million tokens is one event. */
const FRAME_BYTES = 8 * 1024 * 1024;
const CONTEXTS = 5_000;
const TRACE_BYTES = 8_192;

export function createModuleHost(options: ModuleHostOptions): ModuleHost {
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const { contexts = CONTEXTS, ...limits } = options.limits ?? {};
  const watchdog = new Watchdog(options.log);
  const place: Place = {
    interpreters: { path: PLUGIN_PATH, node: options.node },
    surroundings: { home: homedir(), path: "" },
    machine: { os: process.platform, arch: process.arch },
  };
  const deps: ProcessDeps = {
    host: { name: "backplane", version: "" },
    timeouts: { ...DEFAULT_TIMEOUTS, launch_ms: timeouts.load_ms },
    limits: { ...DEFAULT_LIMITS, frame_bytes: FRAME_BYTES, ...limits },
    deadlines: new Deadlines(options.clock),
    watchdog,
    place,
    log: options.log,
  };
  const running = new Set<HostedPlugin>();
  const plan = (entry: PluginEntry): LaunchPlan => ({
    runtime: {
      protocol: "module.kernel",
      transport: "stdio",
      entrypoint: [
        "node",
        ...(options.node_args ?? []),
        options.host_module,
        String(deps.limits.frame_bytes),
      ],
      env: options.env ?? {},
    },
    folder: entry.dir,
    home: options.home?.(entry.name) ?? null,
  });

  return {
    async start(entry) {
      const hosted = new HostedPlugin(deps, timeouts, new LiveContexts(contexts), entry, plan(entry));
      running.add(hosted);
      void hosted.process.gone.then(() => running.delete(hosted));
      return await hosted.loaded();
    },
    async close() {
      await Promise.all([...running].map((hosted) => hosted.close()));
      await watchdog.close();
    },
  };
}

class HostedPlugin {
  readonly process: PluginProcess;
  readonly #entry: PluginEntry;
  readonly #deps: ProcessDeps;
  readonly #timeouts: ModuleHostTimeouts;
  readonly #secrets = new SeenSecrets();
  readonly #parts: StandInParts;
  #session: ModuleSession | null = null;
  #lastCall = 0;
  /** We end it, so nobody needs to be told that it ended. */
  #ending = false;

  constructor(
    deps: ProcessDeps,
    timeouts: ModuleHostTimeouts,
    contexts: LiveContexts,
    entry: PluginEntry,
    plan: LaunchPlan,
  ) {
    this.#deps = deps;
    this.#timeouts = timeouts;
    this.#entry = entry;
    const calls = new Map<number, KernelToolCall>();
    const parts: StandInParts = {
      entry,
      contexts,
      calls,
      nextCall: () => ++this.#lastCall,
      session: () => this.#session!,
      alive: () => this.process.state === "ready",
      explained: (answer) => this.#explained(answer),
      within: (ms, what, answer) => this.#within(ms, what, answer),
      timeouts,
    };
    this.#parts = parts;
    const answer = answerPlugin({
      contexts,
      secrets: this.#secrets,
      calls,
      standInTool: (id, spec, brief) => standInTool(parts, id, spec, brief),
    });
    const dialect = moduleDialect(
      { entry, load_ms: timeouts.load_ms, answer, lastWords: () => this.#lastWords() },
      (session) => {
        this.#session = session;
      },
    );
    this.process = new PluginProcess(deps, {
      dialect,
      package: { package_id: entry.name, version: entry.version },
      prepare: async () => plan,
      order: null,
      notice: () => {},
      violation: () => {},
    });
  }

  async loaded(): Promise<LoadedPlugin> {
    const { process } = this;
    await process.ready;
    try {
      const plugin = standInPlugin(this.#parts, this.#session!.description!);
      return {
        plugin,
        close: () => this.close(),
        onExit: (listener) =>
          void process.gone.then(() => {
            if (!this.#ending) listener(this.#exitError());
          }),
      };
    } catch (error) {
      process.kill("it is not what package.json says");
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#ending = true;
    this.process.stop(this.#timeouts.stop_ms, "the plugin is unloaded");
    await this.process.gone;
  }

  async #explained<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      // By the pipe, not by the code: a plugin may throw an error with any code.
      if (this.process.failure === null) throw error;
      await this.process.gone;
      throw this.#exitError();
    }
  }

  #within<T>(ms: number, what: string, answer: Promise<T>): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const { deadlines } = this.#deps;
    const limit = deadlines.set(ms, () => {
      const message = `${this.#entry.name} did not finish ${what} within ${ms} ms, so its process was killed.${this.#lastWords()}`;
      reject(new BackplaneError("launch_failed", message));
      this.#ending = true;
      this.process.kill(`it did not finish ${what} in time`);
    });
    return Promise.race([answer, late]).finally(() => deadlines.clear(limit));
  }

  /** The trace of an error that nobody caught is on stderr; it becomes the stack of this one. */
  #exitError(): BackplaneError {
    const { exit, killReason } = this.process;
    const why = killReason === null ? ended(exit) : `was ended because ${killReason}`;
    const error = new BackplaneError(
      "crashed",
      `The process of ${this.#entry.name} ${why}.${this.#lastWords()}`,
    );
    const trace = this.#secrets.redact(this.process.stderr.since(0, TRACE_BYTES).toString("utf8")).trim();
    if (trace !== "") error.stack = `${error.name}: ${error.message}\n${trace}`;
    return error;
  }

  #lastWords(): string {
    const words = lastWords(this.process.stderr.since(0, TRACE_BYTES).toString("utf8"));
    return words === null ? "" : ` Its last words on stderr: ${this.#secrets.redact(words)}`;
  }
}

function ended(exit: ExitStatus | null): string {
  if (exit?.signal) return `was killed by ${exit.signal}`;
  return `ended with exit code ${exit?.code ?? "unknown"}`;
}
