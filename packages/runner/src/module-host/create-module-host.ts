/**
 * Kernel plugins in processes of their own (plug.trust): in the sandbox (sandbox.class), with an environment made from
 * nothing, killed as a whole, and gone with the gateway. `start` resolves once the module is imported and checked; a module that hangs
 * is killed, and every failure carries what the process last wrote to stderr.
 */
import { homedir } from "node:os";
import { BackplaneError, type KernelToolCall, type PluginEntry } from "@backplane/contract";
import type { Clock, LoadedPlugin, Logger, PluginReach } from "@backplane/ports";
import type { Refusal } from "../egress/destinations/refusals.ts";
import { DEFAULT_LIMITS, DEFAULT_TIMEOUTS, PLUGIN_PATH, type RunnerLimits } from "../ports/settings.ts";
import { PluginProcess, type ProcessDeps } from "../processes/plugin-process.ts";
import { type ExitStatus, lastWords, type Place } from "../programs/diagnose-launch.ts";
import { limitMet } from "../sandbox/cause-of-death.ts";
import { ProcessTrees } from "../supervision/process-trees.ts";
import { Watchdog } from "../supervision/watchdog.ts";
import { Deadlines } from "../time/deadlines.ts";
import { answerPlugin } from "./answer-plugin.ts";
import { type HostProgram, hostProgram } from "./host-program.ts";
import { LiveContexts } from "./live-contexts.ts";
import { type ModuleSession, moduleDialect } from "./module-session.ts";
import { type Boundary, type PlaceParts, type PluginPlace, placePlugin } from "./place-plugin.ts";
import { type StandInParts, standInPlugin, standInTool } from "./plugin-proxy.ts";
import { SeenSecrets } from "./seen-secrets.ts";

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
  /** A plugin's own folder, which is its home; null for none. */
  home?(name: string): string | null;
  /** Folders that no plugin sees, even when they lie within its own. */
  secluded?: readonly string[];
}

export interface ModuleHost {
  start(entry: PluginEntry, reach: PluginReach): Promise<LoadedPlugin>;
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
/** Refused connections of one process that are written to the log; an attacker makes them. */
const LOGGED_REFUSALS = 64;

/** Without a boundary there is no sandbox: the operator has switched it off. */
export function createModuleHost(options: ModuleHostOptions, boundary: Boundary | null = null): ModuleHost {
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const { contexts = CONTEXTS, ...limits } = options.limits ?? {};
  const watchdog = new Watchdog(options.log);
  const trees = new ProcessTrees(options.log);
  const place: Place = {
    interpreters: { path: PLUGIN_PATH, node: options.node },
    surroundings: { home: homedir(), path: "" },
    machine: { os: process.platform, arch: process.arch },
  };
  const deps: ProcessDeps = {
    host: { name: "backplane", version: "" },
    timeouts: { ...DEFAULT_TIMEOUTS, start_ms: timeouts.load_ms },
    limits: { ...DEFAULT_LIMITS, frame_bytes: FRAME_BYTES, ...limits },
    deadlines: new Deadlines(options.clock),
    watchdog,
    trees,
    place,
    log: options.log,
  };
  const running = new Set<HostedPlugin>();
  let program: HostProgram | null = null;
  const parts: PlaceParts = {
    boundary,
    host_module: options.host_module,
    host_program: () => (program ??= hostProgram(options.host_module)),
    node_args: options.node_args ?? [],
    frame_bytes: deps.limits.frame_bytes,
    env: options.env ?? {},
    state: (name) => options.home?.(name) ?? null,
    secluded: options.secluded ?? [],
  };
  let closed = false;

  return {
    async start(entry, reach) {
      const secrets = new SeenSecrets();
      const refused = refusalLog(options.log, entry.name, secrets);
      const where = await placePlugin(parts, entry, reach, refused);
      if (closed) {
        await where.leave();
        throw new BackplaneError("gateway_stopping");
      }
      const kept = new LiveContexts(contexts, where.state_dir);
      const hosted = new HostedPlugin({ deps, timeouts, contexts: kept, entry, where, secrets });
      running.add(hosted);
      void hosted.gone.then(() => running.delete(hosted));
      return await hosted.loaded();
    },
    async close() {
      closed = true;
      await Promise.all([...running].map((hosted) => hosted.close()));
      await watchdog.close();
      await trees.close();
    },
  };
}

/** Of a kernel plugin no call has a record to keep it on: `net.fetch` with a call's `as` does that. */
function refusalLog(log: Logger, plugin: string, secrets: SeenSecrets): (refusal: Refusal) => void {
  let left = LOGGED_REFUSALS;
  return ({ host, port, reason }) => {
    if (left-- <= 0) return;
    log.warn({ plugin, host: secrets.redact(host), port, reason }, "a plugin was refused a connection");
  };
}

interface HostedParts {
  deps: ProcessDeps;
  timeouts: ModuleHostTimeouts;
  contexts: LiveContexts;
  entry: PluginEntry;
  where: PluginPlace;
  secrets: SeenSecrets;
}

class HostedPlugin {
  readonly process: PluginProcess;
  /** After its process is gone and what that had is given back. */
  readonly gone: Promise<void>;
  readonly #entry: PluginEntry;
  readonly #deps: ProcessDeps;
  readonly #timeouts: ModuleHostTimeouts;
  readonly #secrets: SeenSecrets;
  readonly #where: PluginPlace;
  readonly #parts: StandInParts;
  #session: ModuleSession | null = null;
  #lastCall = 0;
  /** We end it, so nobody needs to be told that it ended. */
  #ending = false;

  constructor({ contexts, deps, entry, secrets, timeouts, where }: HostedParts) {
    this.#deps = deps;
    this.#timeouts = timeouts;
    this.#entry = entry;
    this.#secrets = secrets;
    this.#where = where;
    const calls = new Map<number, KernelToolCall>();
    const parts: StandInParts = {
      entry,
      contexts,
      calls,
      nextCall: () => ++this.#lastCall,
      session: () => this.#asked(),
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
      {
        entry,
        module: where.module,
        load_ms: timeouts.load_ms,
        answer,
        outside: (text) => where.outside(text),
        lastWords: () => this.#lastWords(),
      },
      (session) => {
        this.#session = session;
      },
    );
    this.process = new PluginProcess(deps, {
      dialect,
      package: { package_id: entry.name, version: entry.version },
      prepare: async () => where.plan,
      order: null,
      notice: () => {},
      violation: () => {},
    });
    this.gone = this.process.gone.then(() => where.leave());
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
    await this.gone;
  }

  /** With each question its way out counts from nothing, as with each call of a binding. */
  #asked(): ModuleSession {
    this.process.confined?.way_out?.renew();
    return this.#session!;
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
    const { exit, failure, killReason } = this.process;
    const why = killReason === null ? ended(exit) : `was ended because ${killReason}`;
    const limit = limitMet(this.process.death);
    const cause = limit === null ? "" : ` ${limit.message}`;
    const error = new BackplaneError(
      // The other failures of a stream are told by the end that they led to.
      failure?.code === "malformed_response" ? failure.code : "crashed",
      `The process of ${this.#entry.name} ${why}.${cause}${this.#lastWords()}`,
    );
    const trace = this.#secrets.redact(this.#stderr()).trim();
    if (trace !== "") error.stack = `${error.name}: ${error.message}\n${trace}`;
    return error;
  }

  #stderr(): string {
    return this.#where.outside(this.process.stderr.since(0, TRACE_BYTES).toString("utf8"));
  }

  #lastWords(): string {
    const words = lastWords(this.#stderr());
    return words === null ? "" : ` Its last words on stderr: ${this.#secrets.redact(words)}`;
  }
}

function ended(exit: ExitStatus | null): string {
  if (exit?.signal) return `was killed by ${exit.signal}`;
  return `ended with exit code ${exit?.code ?? "unknown"}`;
}
